"""The plan of a run: missing or stale cells by environment, and the cells that decide. Pure.

Cells that decide are both sides of every expected change, both ends of every line, and `main`; then
the middle between two measured cells that disagree, so that plan after plan closes in.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from repromatrix.runner.judging.ranges import Segment, axes, fails, segments
from repromatrix.runner.judging.verdicts import covering, is_current, live
from repromatrix.runner.model.case import Case, Failure
from repromatrix.runner.model.cell import Cell, Environment, obstacles
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The unit of scheduling: one environment with the cells that it is to run."""

    environment: str
    cells: tuple[Cell, ...]

    def parts(self, largest: int) -> Iterator[Unit]:
        """Yield units of at most that many cells, which together have all of them."""
        for first in range(0, len(self.cells), largest):
            yield Unit(environment=self.environment, cells=self.cells[first : first + largest])


_CASE = itemgetter(0, 4)
"""The case and the device of a cell."""


def applicable(
    cells: Sequence[Cell], cases: Mapping[str, Case], environment: Environment
) -> tuple[Cell, ...]:
    """Keep the cells whose case can be run in an environment."""
    kept: list[Cell] = []
    # The cells of a case stand together: it is asked once for all of them.
    for (name, device), some in groupby(cells, key=_CASE):
        if not obstacles(cases[name], environment, device):
            kept.extend(some)
    return tuple(kept)


def missing(
    cells: Iterable[Cell],
    cases: Mapping[str, Case],
    environment: Environment,
    known: Mapping[Cell, Observation],
) -> tuple[Cell, ...]:
    """Keep the cells that no current evidence answers for, or about which machines disagree."""
    if not known:
        return tuple(cells)
    return tuple(
        cell for cell in cells if not answered(known.get(cell), cases[cell.case], environment)
    )


def answered(row: Observation | None, case: Case, environment: Environment) -> bool:
    """Say whether what is known of a cell answers for it, and no machine denies it."""
    return row is not None and not row.sides and is_current(row, case, environment)


def coarse_to_fine(names: Sequence[H]) -> tuple[H, ...]:
    """Order names so that what was run is useful whenever it stops: both ends, then middles.

    >>> coarse_to_fine("abcde")
    ('e', 'a', 'c', 'b', 'd')
    """
    if not names:
        return ()
    order = dict.fromkeys((names[-1], names[0]))
    gaps = deque([(0, len(names) - 1)])
    while gaps:
        low, high = gaps.popleft()
        middle = (low + high) // 2
        if low < middle:
            order[names[middle]] = None
            gaps.extend([(low, middle), (middle, high)])
    return tuple(order)


def plan(names: Sequence[str], cells_in: Callable[[str], tuple[Cell, ...]]) -> tuple[Unit, ...]:
    """Return the units in the order in which they are to be run, those without cells left out."""
    units = (Unit(environment=name, cells=cells_in(name)) for name in coarse_to_fine(names))
    return tuple(unit for unit in units if unit.cells)


class Why(IntEnum):
    """What makes a cell decide something, the most telling first."""

    CHANGE = 0
    """Beside a change that is expected, or between two measured cells that disagree."""
    END = 1
    """The oldest or newest of a line, or `main`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axes:
    """What a plan is about: cases, environments in the order of the table, and the other axes."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    precisions: Sequence[Precision]
    device: Device


Rows = dict[str, Observation]
"""What is known of one variant in one precision, by environment."""


_Expected = Segment[Environment, tuple[Failure, ...]]
"""Neighbouring environments of a line with the same expectations of a case."""


def deciding(grid: Axes, known: Mapping[Cell, Observation]) -> dict[Cell, Why]:
    """Return the cells that decide something, by the evidence at hand; all others are within."""
    by_variant = _rows(grid, known)
    decisive: dict[Cell, Why] = {}
    for case in grid.cases.values():
        lines = list(_lines(grid, case))
        for workaround, precision in itertools.product(case.branches, grid.precisions):
            rows = by_variant.get((case.name, workaround, precision), {})
            for line in lines:
                for name, why in _of_line(_expected_alike(line, workaround, precision, grid), rows):
                    cell = Cell(case.name, workaround, name, precision, grid.device)
                    decisive[cell] = min(why, decisive.get(cell, why))
    return decisive


def _rows(grid: Axes, known: Mapping[Cell, Observation]) -> dict[tuple[str, str, Precision], Rows]:
    """Arrange what current evidence says, and which environments could not be built."""
    rows: dict[tuple[str, str, Precision], Rows] = {}
    for cell, seen in known.items():
        case, environment = grid.cases.get(cell.case), grid.environments.get(cell.environment)
        if case is None or environment is None or cell.device is not grid.device:
            continue
        if _unbuildable(seen) or is_current(seen, case, environment):
            key = cell.case, cell.workaround, cell.precision
            rows.setdefault(key, {})[cell.environment] = seen
    return rows


def _lines(grid: Axes, case: Case) -> Iterator[list[_Expected]]:
    """Yield the lines of a case: along releases, and along the versions of each pair.

    What no lock describes stands alone: of `main` nothing is known before it is measured.
    """
    able = {
        name: environment
        for name, environment in grid.environments.items()
        if not environment.source.has_lock or not obstacles(case, environment, grid.device)
    }
    for axis in axes(case, grid.environments):
        names = [point.environment for point in axis if point.environment in able]
        alone = [name for name in names if not able[name].source.has_lock]
        pinned = [name for name in names if able[name].source.has_lock]
        for line in (pinned, *([name] for name in alone)):
            if line:
                yield segments([able[name] for name in line], partial(live, case))


def _expected_alike(
    line: Iterable[_Expected], workaround: str, precision: Precision, grid: Axes
) -> list[list[str]]:
    """Cut a line where what is expected of one variant changes."""
    cell = Cell("", workaround, "", precision, grid.device)
    found = segments(line, lambda part: (covering(part.answer, cell),))
    return [[one.name for part in each.points for one in part.points] for each in found]


def _of_line(
    alike: Sequence[Sequence[str]], rows: Mapping[str, Observation]
) -> Iterator[tuple[str, Why]]:
    """Yield both sides of every stretch, and what is to be asked or settled within."""
    last = len(alike) - 1
    for at, stretch in enumerate(alike):
        reasons = dict.fromkeys(_asked(stretch, rows), Why.CHANGE)
        # Where a stretch is a single release, it stands beside a change whatever else it is.
        if len(stretch) > 1 or not last:
            reasons.update({stretch[0]: Why.END} if at == 0 else {})
            reasons.update({stretch[-1]: Why.END} if at == last else {})
        yield from reasons.items()


def _asked(stretch: Sequence[str], rows: Mapping[str, Observation]) -> Iterator[str]:
    """Yield both ends, those next to them where they cannot be built, and what is to be settled.

    To be settled are the middle of every gap between two neighbours that disagree, and what the
    sources disagree about.
    """
    yield from (stretch[0], stretch[-1])
    if not rows:
        return
    built = [name for name in stretch if not _unbuildable(rows.get(name))]
    yield from (*built[:1], *built[-1:])
    found = segments(built, lambda name: (_said(rows[name]),) if name in rows else None)
    yield from (gap[len(gap) // 2] for each in found[1:] if (gap := each.before))
    yield from (name for name in stretch if name in rows and rows[name].sides)


def _unbuildable(seen: Observation | None) -> bool:
    return seen is not None and seen.outcome is Outcome.UNBUILDABLE


def _said(seen: Observation) -> object:
    """Return how a cell behaved; what proves nothing says nothing, in whatever way."""
    return seen.kind if fails(seen) is not None else None
