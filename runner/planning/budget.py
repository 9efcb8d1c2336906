"""Run within a time budget: what cells cost, and what can still be started."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from repromatrix.runner.errors import InvalidValue, refuse
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.plan import Unit

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


_UNITS = {"s": 1, "m": 60, "h": 3600}
_SHAPE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smh])")


def seconds(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `2h`; raises RunnerError for anything else."""
    match = _SHAPE.fullmatch(text.strip())
    if match and float(match[1]) > 0:
        return float(match[1]) * _UNITS[match[2]]
    raise refuse(InvalidValue("--budget", text, "a time above zero, such as 90s, 10m or 2h"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Time for building and measuring, and what there still is time for."""

    until: float
    """When nothing is begun any more, on the monotonic clock."""
    workers: int
    costs: Costs
    beside: int = 1
    """Cells of one environment at once, where there are fewer of those than workers."""
    now: Callable[[], float] = time.monotonic

    def fitting(self, unit: Unit) -> Unit:
        """Return what of a unit is likely to end in time, maybe no cell."""
        room = (self._left() - self.costs.of_begin(unit.environment)) * self.beside
        spent = accumulate(map(self.costs.of_cell, unit.cells))
        return replace(unit, cells=unit.cells[: sum(seconds <= room for seconds in spent)])

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
