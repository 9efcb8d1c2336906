"""Which cells are worth their time first, where there is not enough of it for all. Pure.

1. Cells beside a change that is expected, never measured: only they tell whether it is there.
2. Ends of a line and `main`, never measured: everything between them rests on them.
3. Cells whose evidence is stale, oldest first: the table shows what no longer has to be true.
4. Other cells that were never measured, coarse to fine: the gaps become smaller evenly.
5. Cells that are known, oldest first: only where everything is run anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from runner.planning.boundaries import Why
from runner.planning.plan import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.model.cell import Cell
    from runner.model.observation import Observation
    from runner.planning.costs import Costs


class Worth(IntEnum):
    """Why a cell is run, the best reason first."""

    CHANGE = 0
    END = 1
    STALE = 2
    GAP = 3
    KNOWN = 4

    @property
    def by_age(self) -> bool:
        """Whether the oldest evidence comes first; else who has most, the import being shared."""
        return self in {Worth.STALE, Worth.KNOWN}


@dataclass(frozen=True, kw_only=True, slots=True)
class Values:
    """What is known of cells, as far as it tells what another measurement is worth."""

    known: Mapping[Cell, Observation]
    decides: Mapping[Cell, Why]
    current: Callable[[Observation], bool]

    def worth(self, cell: Cell) -> Worth:
        """Say why a cell is run."""
        seen = self.known.get(cell)
        if seen is not None and seen.outcome.was_run:
            return Worth.KNOWN if self.current(seen) else Worth.STALE
        return _NEVER_MEASURED[self.decides.get(cell)]

    def age(self, cell: Cell) -> str:
        """Return what sorts by age: runs are named after their time, published ones not at all."""
        seen = self.known.get(cell)
        return seen.provenance.run if seen is not None else ""


_NEVER_MEASURED = {Why.CHANGE: Worth.CHANGE, Why.END: Worth.END, None: Worth.GAP}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Cells of one environment that are worth the same."""

    worth: Worth
    place: int
    unit: Unit
    age: str

    @property
    def rank(self) -> tuple[object, ...]:
        if self.worth.by_age:
            return self.worth, self.age, self.place
        crowd = 0 if self.worth is Worth.GAP else -len(self.unit.cells)
        return self.worth, crowd, self.place


def by_value(
    units: Sequence[Unit], values: Values, costs: Costs, seconds: float, workers: int
) -> tuple[Unit, ...]:
    """Cut and order units so that the time goes to the cells of most value.

    First what fits, each environment once with all that it is to run; then the rest, to be begun
    where the time was estimated too short. `units` are in the order of `planning.plan`.
    """
    parts = [one for place, unit in enumerate(units) for one in _parts(place, unit, values)]
    parts.sort(key=lambda one: one.rank)
    filling = _Filling(costs, seconds, workers)
    left: dict[str, list[Cell]] = {}
    for part in parts:
        name = part.unit.environment
        left.setdefault(name, []).extend(filling.take(name, part.unit.cells))
    return (*_units(filling.taken), *_units(left))


def _units(found: Mapping[str, Sequence[Cell]]) -> Iterable[Unit]:
    return (Unit(environment=name, cells=tuple(cells)) for name, cells in found.items() if cells)


def _parts(place: int, unit: Unit, values: Values) -> Iterable[_Part]:
    by_worth: dict[Worth, list[Cell]] = {}
    for cell in unit.cells:
        by_worth.setdefault(values.worth(cell), []).append(cell)
    for worth, cells in by_worth.items():
        if worth.by_age:
            cells.sort(key=values.age)
        some = Unit(environment=unit.environment, cells=tuple(cells))
        yield _Part(worth=worth, place=place, unit=some, age=values.age(cells[0]))


class _Filling:
    """Fills the time of all workers; no environment gets more than one worker has."""

    def __init__(self, costs: Costs, seconds: float, workers: int) -> None:
        self.costs = costs
        self.seconds = seconds
        self.total = seconds * workers
        self.taken: dict[str, list[Cell]] = {}
        self.spent: dict[str, float] = {}

    def take(self, environment: str, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Take what fits from the front; return what is left."""
        spent = self.spent.get(environment, 0.0)
        begin = 0.0 if spent else self.costs.of_begin(environment)
        room = min(self.total, self.seconds - spent) - begin
        count = fitting(cells, self.costs, room)
        if count:
            used = begin + sum(map(self.costs.of_cell, cells[:count]))
            self.total -= used
            self.spent[environment] = spent + used
            self.taken.setdefault(environment, []).extend(cells[:count])
        return cells[count:]


def fitting(cells: Sequence[Cell], costs: Costs, seconds: float) -> int:
    """Return how many of the first cells can be run one after the other in some time."""
    for count, cell in enumerate(cells):
        seconds -= costs.of_cell(cell)
        if seconds < 0:
            return count
    return len(cells)
