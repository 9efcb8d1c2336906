"""The plan of a run: cells by environment, those that decide, and those that are due. Pure.

Cells that decide are both sides of every expected change, both ends of every line, and `main`; then
the middle between two measured cells that disagree, so that plan after plan closes in.

A case that starts processes or compiles takes far longer than others, and many workarounds stand
where their case passes without them: neither is due on every release (`due`).
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

from packaging.version import Version

from repromatrix.runner.judging.ranges import Segment, axes, fails, segments
from repromatrix.runner.judging.verdicts import covering, is_current, live
from repromatrix.runner.model.case import PLAIN, Case, Failure, Isolation, Trigger
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs, obstacles
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


_HEAVY = frozenset({Trigger.COMPILE, Trigger.DISTRIBUTED})


def is_heavy(case: Case) -> bool:
    """Say whether a case starts processes or compiles."""
    block = case.block
    return (
        block.processes > 1
        or block.isolation is Isolation.PROCESS
        or not _HEAVY.isdisjoint(block.triggers)
    )


def due(grid: Axes, known: Mapping[Cell, Observation]) -> Callable[[Cell], bool]:
    """Return what says whether a cell of the grid is due, by expectations and what is known.

    On a release that is not the newest of its minor line, and not beside a change, two kinds of
    cells are not due: those of a case that starts processes or compiles, and those of a workaround
    where its case passes in that precision. What is known to deny its neighbours is a change.
    """
    decisive = deciding(grid, known)
    newest = _newest_of_lines(grid.environments)
    failing = _failing(grid, known)

    def is_due(cell: Cell) -> bool:
        if cell.environment in newest or cell in decisive:
            return True
        plain = cell._replace(workaround=PLAIN)
        if decisive.get(plain) is Why.CHANGE:
            return True
        if is_heavy(grid.cases[cell.case]):
            return False
        return cell == plain or plain in failing

    return is_due


def _newest_of_lines(environments: Mapping[str, Environment]) -> frozenset[str]:
    newest: dict[object, str] = {}
    for name, environment in environments.items():
        line: object = name
        if environment.source is Source.RELEASE:
            line = (Version(environment.column).release[:2], environment.extras)
        newest[line] = name
    return frozenset(newest.values())


def _failing(grid: Axes, known: Mapping[Cell, Observation]) -> frozenset[Cell]:
    found = {cell for cell, row in known.items() if not cell.workaround and fails(row)}
    for case, environment in itertools.product(grid.cases.values(), grid.environments.values()):
        if belongs(case, environment) and (entries := live(case, environment)):
            for precision in grid.precisions:
                cell = Cell(case.name, PLAIN, environment.name, precision, grid.device)
                if covering(entries, cell) is not None:
                    found.add(cell)
    return frozenset(found)


def telling(
    case: Case,
    environments: Mapping[str, Environment],
    known: Mapping[Cell, Observation],
    device: Device,
) -> tuple[str, ...]:
    """Return the releases, oldest first, on which to measure a case under another torch.

    They are on both sides of what changes, and both ends: what a case does between two changes it
    is taken to do under any torch. A change is one of outcome or signature between neighbours that
    were judged, in any precision, with or without a workaround. Both ends are those of what was
    judged, or of what applies.
    """
    line = [
        point.environment
        for point in axes(case, environments)[0]
        if environments[point.environment].source is Source.RELEASE
        and not obstacles(case, environments[point.environment], device)
    ]
    series: dict[tuple[str, str], dict[str, Observation]] = {}
    for cell, row in known.items():
        if cell.case == case.name and cell.device is device and fails(row) is not None:
            series.setdefault((cell.workaround, cell.precision), {})[cell.environment] = row
    judged = [name for name in line if any(name in rows for rows in series.values())] or line
    wanted = {*judged[:1], *judged[-1:]}
    for rows in series.values():
        for older, newer in itertools.pairwise(name for name in line if name in rows):
            if rows[older].kind != rows[newer].kind:
                wanted.update((older, newer))
    return tuple(name for name in line if name in wanted)
