"""What stored evidence answers: current observations, and those that contradict. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.judging.currency import contests, is_current
from runner.judging.ranges import fails

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.model.case import Case
    from runner.model.cell import Cell, Environment
    from runner.model.observation import Observation


def current(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[dict[Cell, Observation], frozenset[Cell]]:
    """Return the observation that answers for each cell, and the cells that are contested.

    A cell is contested where one source saw it fail and another saw it pass, both on what the
    case and the environment are today. It counts as not known, so the search asks it again, until
    the later source, this machine, has repeated it.
    """
    known: dict[Cell, Observation] = {}
    contested: set[Cell] = set()
    for row in rows:
        case, environment = cases.get(row.cell.case), environments.get(row.cell.environment)
        if case is None or environment is None or not is_current(row, case, environment):
            continue
        before = known.get(row.cell)
        if contests(fails(before), fails(row), row.repeats):
            contested.add(row.cell)
        known[row.cell] = row
    return {cell: row for cell, row in known.items() if cell not in contested}, frozenset(contested)


def judged(known: Mapping[Cell, Observation]) -> dict[Cell, Observation]:
    """Return what the code decided; what the machine did (memory ran out) is asked again."""
    return {cell: row for cell, row in known.items() if not row.outcome.blames_machine}
