"""What a unit costs: building what is absent, one import, and each of its cells. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

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
        along={kind: statistics.median(found) for kind, found in kinds.items()},
        typical=statistics.median(own.values()) if own else CELL,
        absent=absent,
    )


def _kind(cell: Cell) -> _Kind:
    return cell.case, cell.workaround, cell.precision, cell.device
