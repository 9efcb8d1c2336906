"""Run within a time budget: what cells cost, which to run first, and what can still be started."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from repromatrix.runner.errors import InvalidValue, refuse
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.plan import Unit, Why

IMPORT = 4.0
"""Seconds that an environment takes before its first cell."""
BUILD = 2.0
"""Seconds that an environment takes to be put together from packages that are at hand."""
FORK = 0.05
"""Seconds that a cell takes beside its own."""
CELL = 0.3
"""Seconds of a cell of which nothing is known."""

_Kind = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Seconds by what is known: the cell's own, then its neighbours', then those of all."""

    own: Mapping[Cell, float]
    along: Mapping[_Kind, float]
    """The median over the releases of a variant in one precision on one device."""
    typical: float
    absent: Callable[[str], bool]
    """Whether an environment has yet to be built."""

    def of_cell(self, cell: Cell) -> float:
        """Return what one cell is likely to take."""
        known = self.own.get(cell)
        return FORK + (self.along.get(_kind(cell), self.typical) if known is None else known)

    def of_begin(self, environment: str) -> float:
        """Return what passes before the first cell of an environment."""
        return IMPORT + BUILD * self.absent(environment)

    def of_unit(self, unit: Unit) -> float:
        """Return what an environment with its cells is likely to take, one cell after the other."""
        return self.of_begin(unit.environment) + sum(map(self.of_cell, unit.cells))


def costs(rows: Iterable[Observation], absent: Callable[[str], bool]) -> Costs:
    """Return the costs as far as earlier rows tell them."""
    own = {row.cell: row.seconds for row in rows if row.seconds is not None}
    kinds: dict[_Kind, list[float]] = {}
    for cell, seconds in own.items():
        kinds.setdefault(_kind(cell), []).append(seconds)
    return Costs(
        own=own,
        along={kind: statistics.median(some) for kind, some in kinds.items()},
        typical=statistics.median(own.values()) if own else CELL,
        absent=absent,
    )


def _kind(cell: Cell) -> _Kind:
    return cell.case, cell.workaround, cell.precision, cell.device


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


def by_value(
    units: Sequence[Unit], values: Values, costs: Costs, seconds: float, workers: int
) -> tuple[Unit, ...]:
    """Cut and order units so that the time goes to the cells of most value.

    First what fits, each environment once with all that it is to run, and none with more than one
    worker has time for; then the rest, to be begun where the time was estimated too short. `units`
    are in the order of `planning.plan`.
    """
    parts = [part for place, unit in enumerate(units) for part in _parts(place, unit, values)]
    total = seconds * workers
    spent: dict[str, float] = {}
    taken: dict[str, list[Cell]] = {}
    left: dict[str, list[Cell]] = {}
    for _, name, cells in sorted(parts):
        begin = 0.0 if name in spent else costs.of_begin(name)
        room = min(total, seconds - spent.get(name, 0.0)) - begin
        count = cells_that_fit(cells, costs, room)
        if count:
            used = begin + sum(map(costs.of_cell, cells[:count]))
            total -= used
            spent[name] = spent.get(name, 0.0) + used
            taken.setdefault(name, []).extend(cells[:count])
        left.setdefault(name, []).extend(cells[count:])
    return (*_units(taken), *_units(left))


def _units(cells: Mapping[str, Sequence[Cell]]) -> Iterable[Unit]:
    return (Unit(environment=name, cells=tuple(some)) for name, some in cells.items() if some)


def _parts(
    place: int, unit: Unit, values: Values
) -> Iterator[tuple[tuple[object, ...], str, list[Cell]]]:
    """Yield the cells of one environment that are worth the same, each after what sorts them."""
    by_worth: dict[Worth, list[Cell]] = {}
    for cell in unit.cells:
        by_worth.setdefault(values.worth(cell), []).append(cell)
    for worth, cells in by_worth.items():
        order: object = 0 if worth is Worth.GAP else -len(cells)
        if worth.by_age:
            cells.sort(key=values.age)
            order = values.age(cells[0])
        yield (worth, order, place), unit.environment, cells


def cells_that_fit(cells: Sequence[Cell], costs: Costs, seconds: float) -> int:
    """Return how many of the first cells can be run one after the other in some time."""
    for count, cell in enumerate(cells):
        seconds -= costs.of_cell(cell)
        if seconds < 0:
            return count
    return len(cells)


_UNITS = {"s": 1, "m": 60, "h": 3600}
_SHAPE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smh])")


def seconds(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `2h`; raises RunnerError for anything else."""
    match = _SHAPE.fullmatch(text.strip())
    if match and float(match[1]) > 0:
        return float(match[1]) * _UNITS[match[2]]
    raise refuse(InvalidValue("--budget", text, "a time above zero, such as 90s, 10m or 2h"))


@dataclass(kw_only=True, slots=True)
class Budget:
    """Time for building and measuring, and what tells how to spend it."""

    until: float
    """When nothing is begun any more, on the monotonic clock."""
    workers: int
    costs: Costs
    values: Values
    beside: int = 1
    """Cells of one environment at once, where there are fewer of those than workers."""
    now: Callable[[], float] = time.monotonic
    begun: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When each unit was begun of which no cell came yet, and the seconds that were estimated."""
    took: float = 0.0
    """Seconds until the first cells of units came."""
    estimated: float = 0.0

    def ordered(self, units: Sequence[Unit]) -> tuple[Unit, ...]:
        """Return units in the order of their value, first those for which there is time."""
        return by_value(units, self.values, self.costs, self._left(), self.workers)

    def fitting(self, unit: Unit) -> Unit:
        """Return what of a unit can still end in time at this machine's pace, maybe no cell."""
        # This machine may be slower than estimated; what says that it is faster is not believed.
        slower = max(1.0, self.took / self.estimated) if self.estimated else 1.0
        left = self._left() / slower
        room = (left - self.costs.of_begin(unit.environment)) * self.beside
        return replace(unit, cells=unit.cells[: cells_that_fit(unit.cells, self.costs, room)])

    def begin(self, unit: Unit) -> None:
        """Note that a unit is begun."""
        first = self.costs.of_begin(unit.environment) + self.costs.of_cell(unit.cells[0])
        self.begun[unit.environment] = self.now(), first

    def came(self, environment: str) -> None:
        """Note a cell; only the first one of a unit tells anything."""
        if environment in self.begun:
            begun, estimated = self.begun.pop(environment)
            self.took += self.now() - begun
            self.estimated += estimated

    def first(self, units: Sequence[Unit]) -> tuple[Unit, ...]:
        """Return the first of ordered units, for which there is likely to be time."""
        left = self._left()
        room = left * self.workers
        for count, unit in enumerate(units):
            cost = self.costs.of_unit(unit)
            room -= cost
            if room < 0 or cost > left:
                return tuple(units[:count])
        return tuple(units)

    def _left(self) -> float:
        return max(0.0, self.until - self.now())
