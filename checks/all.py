"""Time `matrix --all` for every release, estimated from a few, environments included.

Beside another checkout, each runs its own way; compare the ratio of their processor time. A
checkout without `--all` runs every cell. Each store begins empty.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from checks import runs
from checks.runs import CORES, Ran
from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.paths import ROOT, Paths

RELEASES = ("4.50.1", "4.53.3", "5.0.0", "5.23.0")
WANTED = 1.8


def check(table: Table, options: argparse.Namespace) -> None:
    """Run the releases in this checkout, and in another one."""
    releases = options.release.split(",") if options.release else RELEASES
    every = len(project.load(Paths()).matrix.releases)
    this = _told(table, "this checkout", ROOT, releases, every)
    if options.against:
        theirs = _told(table, "the other", options.against.resolve(), releases, every)
        wanted = f"wanted: at least {WANTED}"
        ratio = theirs.processor / this.processor
        table.row("processor time, other / this", ratio, "times", wanted)
        table.row("time, other / this", theirs.seconds / this.seconds, "times")
        alone = len(this.cells - theirs.cells)
        table.row("cells that this one alone measures", alone, "cells")


def _told(table: Table, name: str, checkout: Path, releases: Sequence[str], every: int) -> Ran:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / ".nox") as environments:
        done = runs.ran(checkout, releases, Path(environments), _options(checkout))
    use = done.processor / (done.seconds * CORES)
    share = every / len(releases)
    table.row(f"{name}: cells", len(done.cells), "cells", f"of {', '.join(releases)}")
    table.row("… core-seconds", done.processor, "s", f"{use:.0%} of {CORES} cores")
    table.row("… time", done.seconds, "s")
    table.row(f"… {every} releases", done.processor * share / 3600, "core-h")
    table.row("… their time", done.seconds * share / 60, "min")
    return done


def _options(checkout: Path) -> tuple[str, ...]:
    """Return how a checkout is asked for everything."""
    with tempfile.TemporaryDirectory() as folder:
        text = runs.printed(["matrix", "--help"], checkout, runs.environ(folder))
    return ("--all",) if "--all " in text else ()
