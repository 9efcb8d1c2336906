"""A run that ends in time: how much there is, and what can still be begun."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.errors import Fault, refuse
from runner.planning.value import Values, Worth, by_value, fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.planning.costs import Costs
    from runner.planning.plan import Unit

_UNITS = {"s": 1, "m": 60, "h": 3600}
_SHAPE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smh])")


def seconds(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `2h`; raises RunnerError for anything else."""
    found = _SHAPE.fullmatch(text.strip())
    if found and float(found[1]) > 0:
        return float(found[1]) * _UNITS[found[2]]
    allowed = "a time above zero in s, m or h: 90s, 10m, 2h"
    raise refuse(Fault(where="--budget", found=repr(text), allowed=allowed))


class Pace:
    """How much slower this machine is than estimated, by when the first cells of units came."""

    def __init__(self) -> None:
        """Nothing came yet: the estimate holds."""
        self._begun: dict[str, tuple[float, float]] = {}
        self._took = self._estimated = 0.0

    def begin(self, environment: str, now: float, estimated: float) -> None:
        """Note that a unit was begun, and when its first cell is likely to come."""
        self._begun[environment] = now, estimated

    def came(self, environment: str, now: float) -> None:
        """Note a cell; only the first one of a unit tells anything."""
        begun = self._begun.pop(environment, None)
        if begun is not None:
            self._took += now - begun[0]
            self._estimated += begun[1]

    @property
    def factor(self) -> float:
        """By what estimates are multiplied; never less than one."""
        return max(1.0, self._took / self._estimated) if self._estimated else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
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
    pace: Pace = field(default_factory=Pace)

    def ordered(self, units: Sequence[Unit]) -> tuple[Unit, ...]:
        """Return units in the order of their value, first those for which there is time."""
        return by_value(units, self.values, self.costs, self._left(), self.workers)

    def fitting(self, unit: Unit) -> Unit:
        """Return what of a unit can still end in time at this machine's pace, maybe no cell."""
        left = self._left() / self.pace.factor
        room = (left - self.costs.of_begin(unit.environment)) * self.beside
        return replace(unit, cells=unit.cells[: fitting(unit.cells, self.costs, room)])

    def begin(self, unit: Unit) -> None:
        """Hear that a unit is begun."""
        first = self.costs.of_begin(unit.environment) + self.costs.of_cell(unit.cells[0])
        self.pace.begin(unit.environment, self.now(), first)

    def came(self, environment: str) -> None:
        """Hear that a cell came."""
        self.pace.came(environment, self.now())

    def first(self, units: Sequence[Unit]) -> tuple[Unit, ...]:
        """Return the first of ordered units, for which there is likely to be time."""
        left = self._left()
        room, found = left * self.workers, []
        for unit in units:
            cost = self.costs.of_unit(unit)
            room -= cost
            if room < 0 or cost > left:
                break
            found.append(unit)
        return tuple(found)

    def counted(self, units: Sequence[Unit]) -> dict[Worth, int]:
        """Count cells by what they are worth, the best first."""
        found = dict.fromkeys(Worth, 0)
        for unit in units:
            for cell in unit.cells:
                found[self.values.worth(cell)] += 1
        return found

    def _left(self) -> float:
        return max(0.0, self.until - self.now())
