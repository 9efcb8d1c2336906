"""The plan of a run: cells whose evidence is missing or stale, by environment, coarse to fine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from repromatrix.runner.judging.verdicts import is_current
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, obstacles
from repromatrix.runner.model.observation import Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The unit of scheduling: one environment with the cells that it is to run."""

    environment: str
    cells: tuple[Cell, ...]


_CASE = itemgetter(0, 4)
"""The case and the device of a cell."""


def applicable(
    cells: Sequence[Cell], cases: Mapping[str, Case], environment: Environment
) -> tuple[Cell, ...]:
    """Keep the cells whose case can be run in an environment."""
    found: list[Cell] = []
    # The cells of a case stand together: it is asked once for all of them.
    for (name, device), some in groupby(cells, key=_CASE):
        if not obstacles(cases[name], environment, device):
            found.extend(some)
    return tuple(found)


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


def coarse_to_fine(names: Sequence[str]) -> tuple[str, ...]:
    """Order names so that the table is useful whenever the run stops: both ends, then middles.

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
