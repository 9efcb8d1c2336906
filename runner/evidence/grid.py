"""The whole grid: every cell with what is known of it, be it only why it was not run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.judging.verdicts import is_current
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, belongs, cells_of, obstacles
from repromatrix.runner.model.observation import Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Outcome, Precision


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
    if is_current(seen, case, environment):
        return seen
    # Neither what an older version of the case did, nor why it was not run, says anything where
    # this one cannot be run.
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
