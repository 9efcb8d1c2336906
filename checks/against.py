"""Time the corpus by this checkout and by another one, in turns.

Both use the same environments. Compare the ratio of two successive runs; on a machine that is not
idle, compare the ratio of their processor time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from checks.runs import ran
from checks.table import Table
from repromatrix.runner.paths import ROOT

RELEASES = ("5.23.0",)
TURNS = 5
WANTED = 1.05


def compare(table: Table, other: Path, releases: Sequence[str] = RELEASES) -> None:
    """Run both in turns, and print the ratio of each pair."""
    both = {"this": ROOT, "other": other.resolve()}
    # Untimed: builds what is missing, compiles it, and shows that both run the same cells.
    cells = {name: ran(checkout, releases).cells for name, checkout in both.items()}
    if apart := cells["this"] ^ cells["other"]:
        msg = f"{len(apart)} cells are run by one of both alone, such as {min(apart)}"
        raise SystemExit(msg)
    table.row("cells", len(cells["this"]), "cells", f"the whole corpus on {', '.join(releases)}")
    pairs = [_pair(table, both, releases, turn) for turn in range(TURNS)]
    median = statistics.median(one for one, _ in pairs)
    table.row("median", median, "times", f"wanted: at most {WANTED}")
    median = statistics.median(one for _, one in pairs)
    table.row("median of processor time", median, "times")


def _pair(
    table: Table, both: Mapping[str, Path], releases: Sequence[str], turn: int
) -> tuple[float, float]:
    """Run both once; return the ratios of their time and of their processor time."""
    # Whoever goes first meets colder caches: they take turns.
    order = sorted(both, reverse=bool(turn % 2))
    found = {name: ran(both[name], releases) for name in order}
    this, other = found["this"], found["other"]
    ratio, processor = this.seconds / other.seconds, this.processor / other.processor
    note = f"{this.seconds:.1f} s and {other.seconds:.1f} s; of processor time {processor:.2f}"
    table.row(f"pair {turn + 1}: this checkout / the other", ratio, "times", note)
    return ratio, processor
