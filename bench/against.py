"""The corpus by this checkout and by another one, in turns: is the runner slower than it was?

Both use the same environments, each has a store and a site of its own. Whoever else uses the
machine slows both down, so what counts is the ratio of two runs that followed each other; on a
machine that is not idle the ratio of their processor time says more than that of their time.
"""

from __future__ import annotations

import csv
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import shared

from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared import Row

RELEASES = ("5.23.0",)
TURNS = 5
WANTED = 1.05

Cells = frozenset[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One run with an empty store: how long it took, and which cells it measured."""

    seconds: float
    processor: float
    """Seconds of processor time, of all its processes."""
    cells: Cells


def measure(row: Row, other: Path, releases: Sequence[str] = RELEASES) -> None:
    """Run both in turns, and print the ratio of each pair; `row` prints one number."""
    both = {"this": ROOT, "other": other.resolve()}
    # Untimed: builds what is missing, compiles it, and shows that both run the same cells.
    cells = {name: run(checkout, releases).cells for name, checkout in both.items()}
    if apart := cells["this"] ^ cells["other"]:
        msg = f"{len(apart)} cells are run by one of both alone, such as {min(apart)}"
        raise SystemExit(msg)
    row("cells", len(cells["this"]), "cells", f"the whole corpus on {', '.join(releases)}")
    pairs = [_pair(row, both, releases, turn) for turn in range(TURNS)]
    row("median", statistics.median(one for one, _ in pairs), "times", f"wanted: at most {WANTED}")
    row("median of processor time", statistics.median(one for _, one in pairs), "times")


def _pair(
    row: Row, both: dict[str, Path], releases: Sequence[str], turn: int
) -> tuple[float, float]:
    """Run both once; return the ratios of their time and of their processor time."""
    # Whoever goes first meets colder caches: they take turns.
    order = sorted(both, reverse=bool(turn % 2))
    found = {name: run(both[name], releases) for name in order}
    this, other = found["this"], found["other"]
    ratio, processor = this.seconds / other.seconds, this.processor / other.processor
    note = f"{this.seconds:.1f} s and {other.seconds:.1f} s; of processor time {processor:.2f}"
    row(f"pair {turn + 1}: this checkout / the other", ratio, "times", note)
    return ratio, processor


def run(
    checkout: Path,
    releases: Sequence[str],
    environments: Path | None = None,
    options: Sequence[str] = (),
) -> Timed:
    """Run the main job of a checkout; raises SystemExit where it could not be run."""
    program = [sys.executable, "-m", "repromatrix"]
    with tempfile.TemporaryDirectory() as folder:
        environ = shared.environ(folder) | {
            "REPROMATRIX_ENVIRONMENTS": str(environments or Paths().built)
        }
        began, used = time.perf_counter(), _processor()
        printed([*program, "matrix", "--release", ",".join(releases), *options], checkout, environ)
        seconds, processor = time.perf_counter() - began, _processor() - used
        table = printed([*program, "results", "--format", "csv"], checkout, environ)
    cells = frozenset(_measured(table))
    return Timed(seconds=seconds, processor=processor, cells=cells)


def _processor() -> float:
    """Return the processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def printed(command: Sequence[str], checkout: Path, environ: dict[str, str]) -> str:
    """Return what a command of a checkout prints; raises SystemExit where it fails."""
    done = subprocess.run(
        command, env=environ, cwd=checkout, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 1}:
        msg = f"{checkout}: {done.stderr}"
        raise SystemExit(msg)
    return done.stdout


def _measured(table: str) -> set[tuple[str, ...]]:
    """Return the cells that were measured here: published ones have no seconds."""
    keys = ("case", "workaround", "release", "precision", "device")
    rows = csv.DictReader(table.splitlines())
    return {tuple(row[key] for key in keys) for row in rows if row["seconds"]}
