"""The whole grid: every cell with what is known of it, be it only why it was not run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.judging.verdicts import is_current
from repromatrix.runner.model.case import PLAIN, Case
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

    @functools.cache
    def unrun(case_name: str, environment_name: str, device: Device) -> Observation:
        """Say why cells were not run: what keeps their case from their environment, if anything."""
        case, environment = grid.cases[case_name], grid.environments[environment_name]
        reasons = obstacles(case, environment, device)
        return Observation(
            cell=Cell(case_name, PLAIN, environment_name, grid.precisions[0], device),
            outcome=Outcome.NOT_APPLICABLE if reasons else Outcome.NOT_RUN,
            provenance=unmeasured(case, environment),
            source="",
            reason="; ".join(reasons) or "nobody has run it",
        )

    def answer(cell: Cell) -> Observation:
        row = known.get(cell)
        case, environment = grid.cases[cell.case], grid.environments[cell.environment]
        if row is not None and is_current(row, case, environment):
            return row
        blank = unrun(cell.case, cell.environment, cell.device)
        # Neither what an older version of the case did, nor why it was not run, says anything
        # where this one cannot be run.
        if row is not None and blank.outcome is not Outcome.NOT_APPLICABLE:
            return row
        return dataclasses.replace(blank, cell=cell)

    return tuple(map(answer, grid.cells()))


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
