"""`matrix --torch`: cases under another torch, on the releases that tell most of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from repromatrix.runner import project
from repromatrix.runner.errors import ExitCode, InvalidValue, Problem, refuse
from repromatrix.runner.execution.run import Run, known_rows
from repromatrix.runner.model.cell import Cell, cells_of
from repromatrix.runner.model.environment_name import with_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.plan import telling
from repromatrix.runner.planning.selection import one_of

OPTION = "--torch"


def under(
    planned: Run, version: str, rows: Sequence[Observation], evidence: Sequence[Observation]
) -> Run:
    """Return a run of the selected cases under another torch; raises RunnerError.

    `rows` are those that may answer for a cell, `evidence` tells where the cases change.
    """
    loaded, selection = planned.project, planned.selection
    declared = [torch.version for torch in loaded.matrix.torch.others]
    if version not in declared:
        raise refuse(InvalidValue(OPTION, version, one_of(declared or ["none"])))
    cells = _cells(planned, version, known_rows(evidence, loaded))
    names = dict.fromkeys(cell.environment for cell in cells)
    if not names:
        problem = Problem(OPTION, "no selected case can be run on a selected release")
        raise refuse(problem, ExitCode.NOTHING_SELECTED)
    widened = project.with_torches(loaded, names)
    only = frozenset(cells)
    selection = dataclasses.replace(selection, environments=frozenset(names), only=only)
    known = known_rows(rows, widened)
    return dataclasses.replace(planned, project=widened, selection=selection, known=known)


def _cells(planned: Run, version: str, known: Mapping[Cell, Observation]) -> list[Cell]:
    loaded, selection, device = planned.project, planned.selection, planned.terms.device
    by_case: dict[str, dict[Cell, Observation]] = {}
    for cell, row in known.items():
        by_case.setdefault(cell.case, {})[cell] = row
    wanted: dict[str, list[Cell]] = {name: [] for name in loaded.names}
    for name in filter(selection.cases.__contains__, loaded.cases):
        case = loaded.cases[name]
        for release in telling(case, loaded.environments, by_case.get(name, {}), device):
            if release in selection.environments:
                under = with_torch(release, version)
                wanted[release] += cells_of(case, under, loaded.matrix.precisions, device)
    return [cell for cells in wanted.values() for cell in cells]
