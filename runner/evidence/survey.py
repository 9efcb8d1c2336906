"""The whole grid: every cell with what is known of it, be it only why it was not run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.judging.currency import is_current
from runner.model.cell import PROTOCOL, Cell, belongs, cells_of, obstacles
from runner.model.observation import Observation, Provenance
from runner.model.outcomes import Device, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.model.case import Case
    from runner.model.cell import Environment
    from runner.model.outcomes import Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The axes of a survey."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    precisions: Sequence[Precision]
    devices: Sequence[Device]

    def cells(self) -> Iterable[Cell]:
        """Yield every cell, case by case, in the order of the table."""
        for case in self.cases.values():
            for device in self.devices:
                for name, environment in self.environments.items():
                    if belongs(case, environment):
                        yield from cells_of(case, name, self.precisions, device)


def choose(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> dict[Cell, Observation]:
    """Keep one observation per cell: a current one before a stale one, then the later given."""
    chosen: dict[Cell, Observation] = {}
    for row in rows:
        held = chosen.get(row.cell)
        if held is None or _rank(row, cases, environments) >= _rank(held, cases, environments):
            chosen[row.cell] = row
    return chosen


def _rank(
    row: Observation, cases: Mapping[str, Case], environments: Mapping[str, Environment]
) -> int:
    case, environment = cases.get(row.cell.case), environments.get(row.cell.environment)
    if case is None or environment is None:
        return 0
    if row.outcome is Outcome.NOT_RUN:
        return 3  # only a refusal is stored so: it must be seen, whatever was known before
    if is_current(row, case, environment):
        return 2
    return 1 if row.outcome.was_run else 0


def survey(grid: Grid, known: Mapping[Cell, Observation]) -> tuple[Observation, ...]:
    """Return an observation for every cell of the grid."""
    blanks: dict[tuple[str, str, Device], Observation] = {}
    return tuple(_of(cell, grid, known, blanks) for cell in grid.cells())


def _of(
    cell: Cell,
    grid: Grid,
    known: Mapping[Cell, Observation],
    blanks: dict[tuple[str, str, Device], Observation],
) -> Observation:
    seen = known.get(cell)
    if seen is None:
        return _blank(cell, grid, blanks)
    case, environment = grid.cases[cell.case], grid.environments[cell.environment]
    if not seen.outcome.was_run or is_current(seen, case, environment):
        return seen
    # What an older version of the case did says nothing where this one cannot be run.
    blank = _blank(cell, grid, blanks)
    return blank if blank.outcome is Outcome.NOT_APPLICABLE else seen


def _blank(
    cell: Cell, grid: Grid, blanks: dict[tuple[str, str, Device], Observation]
) -> Observation:
    """Say of a cell why it was not run: what keeps its case from its environment, if anything."""
    key = (cell.case, cell.environment, cell.device)
    if key not in blanks:
        case, environment = grid.cases[cell.case], grid.environments[cell.environment]
        reasons = obstacles(case, environment, cell.device)
        blanks[key] = Observation(
            cell=cell,
            outcome=Outcome.NOT_APPLICABLE if reasons else Outcome.NOT_RUN,
            provenance=unmeasured(case, environment),
            source="",
            reason="; ".join(reasons) or "nobody has run it",
        )
    return dataclasses.replace(blanks[key], cell=cell)


def unmeasured(case: Case, environment: Environment) -> Provenance:
    """Return the provenance of a cell that was not run: what it would run on."""
    return Provenance(
        case_digest=case.digest,
        environment_digest=environment.digest,
        packages=environment.pins,
        python=environment.python,
        torch_build=environment.version("torch"),
        hardware="",
        protocol=PROTOCOL,
        run="",
    )
