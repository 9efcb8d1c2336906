"""Which cells can decide the truth of the expectations, and which are taken for granted. Pure.

Both sides of every change that is expected, both ends of every line, `main`; then the middle
between two measured cells that disagree, so that plan after plan closes in on what changed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from runner.judging.axes import axes
from runner.judging.currency import is_current
from runner.judging.expectations import covers, live
from runner.judging.ranges import fails
from runner.model.cell import Cell, obstacles
from runner.model.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from runner.model.case import Case, Failure
    from runner.model.cell import Environment
    from runner.model.observation import Observation
    from runner.model.outcomes import Device, Precision


class Why(IntEnum):
    """What makes a cell decide something, the most telling first."""

    CHANGE = 0
    """Beside a change that is expected, or between two measured cells that disagree."""
    END = 1
    """The oldest or newest of a line, or `main`."""
    WITHIN = 2
    """Between neighbours: it decides nothing as long as those agree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axes:
    """What a plan is about: cases, environments in the order of the table, and the other axes."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    precisions: Sequence[Precision]
    device: Device


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One variant of a case in one precision along environments that can run it, oldest first."""

    cells: tuple[Cell, ...]
    entries: tuple[Failure | None, ...]
    """What is expected of each cell; None where it is expected to pass."""


def deciding(grid: Axes, known: Mapping[Cell, Observation]) -> dict[Cell, Why]:
    """Return every cell that can be run with what it decides, by the evidence at hand."""
    found: dict[Cell, Why] = {}
    for case in grid.cases.values():
        held = _Held(grid, case, known)
        for line in _lines(grid, case):
            for cell, why in _of_line(line, held.row):
                found[cell] = min(why, found.get(cell, Why.WITHIN))
    return found


def asked(deciding_: Mapping[Cell, Why]) -> frozenset[Cell]:
    """Return the cells that a plan by boundaries runs, if they are not known."""
    return frozenset(cell for cell, why in deciding_.items() if why is not Why.WITHIN)


class _Held:
    """What current evidence says of the cells of one case."""

    def __init__(self, grid: Axes, case: Case, known: Mapping[Cell, Observation]) -> None:
        self.grid = grid
        self.case = case
        self.known = known

    def row(self, cell: Cell) -> Observation | None:
        """Return what was measured of a cell, or that its environment could not be built."""
        seen = self.known.get(cell)
        if seen is None or seen.outcome is Outcome.UNBUILDABLE:
            return seen
        environment = self.grid.environments[cell.environment]
        return seen if is_current(seen, self.case, environment) else None


def _lines(grid: Axes, case: Case) -> Iterator[Line]:
    """Yield the lines of a case: along releases, and along the versions of each pair.

    What no lock describes stands alone: of `main` nothing is known before it is measured.
    """
    able = {
        name: one
        for name, one in grid.environments.items()
        if not one.source.has_lock or not obstacles(case, one, grid.device)
    }
    entries = {name: live(case, one) for name, one in able.items()}
    for axis in axes(case, able):
        names = [point.environment for point in axis]
        pinned = [name for name in names if able[name].source.has_lock]
        for some in (pinned, *([name] for name in names if not able[name].source.has_lock)):
            yield from _variants(grid, case, some, entries)


def _variants(
    grid: Axes, case: Case, names: Sequence[str], entries: Mapping[str, Collection[Failure]]
) -> Iterator[Line]:
    for workaround, precision in itertools.product(case.variants, grid.precisions):
        cells = tuple(Cell(case.name, workaround, name, precision, grid.device) for name in names)
        expected = (_covering(entries[cell.environment], cell) for cell in cells)
        yield Line(cells=cells, entries=tuple(expected))


def _covering(entries: Iterable[Failure], cell: Cell) -> Failure | None:
    return next((one for one in entries if covers(one, cell)), None)


def _of_line(line: Line, row: Callable[[Cell], Observation | None]) -> Iterator[tuple[Cell, Why]]:
    """Cut a line where what is expected changes: a stretch in which nothing does has two sides."""
    places = range(len(line.cells))
    for _, group in itertools.groupby(places, key=lambda at: id(line.entries[at])):
        stretch = [*group]
        rows = {at: row(line.cells[at]) for at in stretch}
        telling = _sides(stretch, rows).union(_middles(stretch, rows))
        ends = _ends(stretch, len(places))
        for at in stretch:
            decides = Why.CHANGE if at in telling else Why.WITHIN
            yield line.cells[at], Why.END if at in ends else decides


def _ends(stretch: Sequence[int], width: int) -> set[int]:
    """Return the ends of the line in a stretch, but for those that stand beside a change."""
    first, last = stretch[0], stretch[-1]
    if first == last and width > 1:
        return set()
    return {first, last} & {0, width - 1}


def _sides(stretch: Sequence[int], rows: Mapping[int, Observation | None]) -> set[int]:
    """Return the first and the last; and those next to them where these cannot be built."""
    built = [at for at in stretch if not _unbuildable(rows[at])]
    return {one for some in (stretch, built) if some for one in (some[0], some[-1])}


def _unbuildable(seen: Observation | None) -> bool:
    return seen is not None and seen.outcome is Outcome.UNBUILDABLE


def _middles(stretch: Sequence[int], rows: Mapping[int, Observation | None]) -> Iterator[int]:
    """Yield the middle of every gap between two neighbours that disagree."""
    built = [at for at in stretch if not _unbuildable(rows[at])]
    ran = [place for place, at in enumerate(built) if rows[at] is not None]
    for low, high in itertools.pairwise(ran):
        gap = built[low + 1 : high]
        if gap and _said(rows[built[low]]) != _said(rows[built[high]]):
            yield gap[len(gap) // 2]


def _said(seen: Observation | None) -> object:
    """Return how a cell behaved; what proves nothing says nothing, in whatever way."""
    return seen.kind if seen is not None and fails(seen) is not None else None
