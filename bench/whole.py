"""`matrix --all` for every release, foretold from a few that are run whole, environments included.

Beside another checkout each runs its own way: what counts is the ratio of their processor time.
A checkout without `--all` runs every cell. Nothing is published to it: each store begins empty.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import against
import shared
from shared import CORES

from repromatrix.runner import project
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared import Row

RELEASES = ("4.50.1", "4.53.3", "5.0.0", "5.23.0")
WANTED = 1.8


def measure(row: Row, other: Path | None = None, releases: Sequence[str] = RELEASES) -> None:
    """Run the releases in this checkout, and in another one; `row` prints one number."""
    every = len(project.load(Paths()).matrix.releases)
    this = _told(row, "this checkout", ROOT, releases, every)
    if other is not None:
        theirs = _told(row, "the other", other.resolve(), releases, every)
        wanted = f"wanted: at least {WANTED}"
        row("processor time, other / this", theirs.processor / this.processor, "times", wanted)
        row("time, other / this", theirs.seconds / this.seconds, "times")
        alone = len(this.cells - theirs.cells)
        row("cells that this one alone measures", alone, "cells")


def _told(
    row: Row, name: str, checkout: Path, releases: Sequence[str], every: int
) -> against.Timed:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / ".nox") as environments:
        done = against.run(checkout, releases, Path(environments), _options(checkout))
    use = done.processor / (done.seconds * CORES)
    share = every / len(releases)
    row(f"{name}: cells", len(done.cells), "cells", f"of {', '.join(releases)}")
    row("… core-seconds", done.processor, "s", f"{use:.0%} of {CORES} cores")
    row("… time", done.seconds, "s")
    row(f"… {every} releases", done.processor * share / 3600, "core-h")
    row("… their time", done.seconds * share / 60, "min")
    return done


def _options(checkout: Path) -> tuple[str, ...]:
    """Return how a checkout is asked for everything."""
    program = [sys.executable, "-m", "repromatrix", "matrix", "--help"]
    with tempfile.TemporaryDirectory() as folder:
        text = against.printed(program, checkout, shared.environ(folder))
    return ("--all",) if "--all " in text else ()
