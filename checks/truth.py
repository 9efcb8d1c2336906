"""Run the same cells three times and in other ways: no outcome may change."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ways import Seen, Way, differing, measure

from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project

RELEASES = ("4.50.0", "4.57.6", "5.23.0")
"""An old one, one in the middle, and the newest."""
SEEDS = ("1", "4242")
_SHOWN = 5


class Held(NamedTuple):
    """One comparison: how many cells were held against each other, and which differed."""

    tried: str
    times: int
    cells: Sequence[Cell]
    note: str = ""


def check(table: Table, options: argparse.Namespace) -> None:
    """Run all of it on the releases that were asked for."""
    releases = options.release.split(",") if options.release else RELEASES
    for held in compared(project.load(Paths()), releases):
        shown = ", ".join(" ".join(filter(None, cell[:4])) for cell in held.cells[:_SHOWN])
        note = ": ".join(filter(None, (held.note, shown)))
        table.count(held.tried, held.times, "outcomes changed", len(held.cells), note)


def compared(
    loaded: Project, releases: Collection[str], cases: Collection[str] = ()
) -> Iterator[Held]:
    """Run a grid, then run it again and in every other way; yield what was found."""
    names = ",".join(releases)
    grid = functools.partial(measure, loaded, releases=names, cases=cases)
    first = grid(Way())
    repeats = [grid(Way()) for _ in range(2)]
    unstable = {cell for other in repeats for cell in differing(first, other)}
    yield Held("cells run three times", len(first), sorted(unstable), names)
    for what, way in _ways():
        yield Held(f"cells {what}", len(first), differing(first, grid(way)))
    forked = {cell: first[cell] for cell in telling(first)}
    fresh = grid(Way(fork=False), only=frozenset(forked))
    note = "one of each case, a failing one where there is one"
    yield Held("cells in a fresh process", len(forked), differing(forked, fresh), note)


def _ways() -> Iterator[tuple[str, Way]]:
    for seed in SEEDS:
        yield f"with PYTHONHASHSEED={seed}", Way(hash_seed=seed)
    yield "with two threads", Way(threads=2)
    yield "in the reverse order", Way(backwards=True)
    yield "without recording dtypes", Way(witness=False)


def telling(seen: Seen) -> frozenset[Cell]:
    """Return a cell of each case and release: one that fails where there is one, else bf16's."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell, (outcome, _) in seen.items():
        key = (cell.case, cell.environment)
        tells = outcome.is_failure or cell.precision is Precision.BF16
        if key not in chosen or (tells and not seen[chosen[key]].outcome.is_failure):
            chosen[key] = cell
    return frozenset(chosen.values())
