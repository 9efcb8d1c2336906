"""A side that is an environment of the grid: answered from evidence, measured where it is not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from runner import campaign, running
from runner.campaign import Campaign
from runner.errors import ExitCode, Fault, Interrupted, refuse
from runner.evidence.survey import Grid, survey
from runner.judging.difference import Side, key_of
from runner.project import informed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runner.comparing.asked import Asked
    from runner.evidence.store import Store
    from runner.model.cell import Cell
    from runner.model.observation import Observation


def side(asked: Asked, name: str, rows: Sequence[Observation]) -> Side:
    """Return what is known of an environment, and of the extras that are laid on top of it."""
    project = informed(asked.project, rows)
    grid = Grid(
        cases={one: project.cases[one] for one in project.cases if one in asked.selection.cases},
        environments={one: project.environments[one] for one in asked.environments(name)},
        precisions=project.matrix.precisions,
        devices=(asked.terms.device,),
    )
    known = campaign.known_rows(rows, project)
    return Side(
        name=name,
        seen={key_of(row.cell): row for row in survey(grid, known) if asked.selection(row.cell)},
    )


def measure(
    asked: Asked, store: Store, rows: Sequence[Observation], only: Collection[Cell] | None = None
) -> list[Observation]:
    """Run what no evidence answers, or what is named, and return all rows there are then.

    Raises Interrupted, and RunnerError (exit 4) where an environment cannot be built; what was
    measured is kept either way.
    """
    planned = _planned(asked, rows, only)
    environments = planned.project.environments
    wanted = {name for name in planned.selection.environments if planned.due(environments[name])}
    if not wanted:
        return list(rows)
    chosen = dataclasses.replace(planned.selection, environments=frozenset(wanted))
    planned = dataclasses.replace(planned, selection=chosen)
    with asked.watched() as audience:
        tally = running.run(planned, store, audience, lambda _: None)
    if tally.interrupted:
        raise Interrupted
    _refuse_unbuilt(tally.unbuilt)
    return [*rows, *store.rows()]


def _planned(asked: Asked, rows: Sequence[Observation], only: Collection[Cell] | None) -> Campaign:
    project = informed(asked.project, rows)
    selection = asked.selection
    if only is not None:
        selection = dataclasses.replace(selection, only=frozenset(only))
    return Campaign(
        project=project,
        selection=selection,
        terms=asked.terms,
        known=campaign.known_rows(rows, project),
        rerun=asked.rerun or only is not None,
    )


def _refuse_unbuilt(unbuilt: Mapping[str, str]) -> None:
    faults = [
        Fault(where=name, found=f"unbuildable: {reason}", allowed="an environment that can be made")
        for name, reason in unbuilt.items()
    ]
    if faults:
        raise refuse(faults[0], ExitCode.UNBUILDABLE)
