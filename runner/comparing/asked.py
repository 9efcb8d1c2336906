"""What a comparison is about, and how its cells are run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.model.cell import Source, belongs, cells_of
from runner.planning.selection import environments_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from runner.engine.events import Terms
    from runner.model.cell import Cell
    from runner.planning.selection import Selection
    from runner.project import Project
    from runner.running import Audience


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What both sides share."""

    project: Project
    selection: Selection
    """Cases, precisions and workarounds; its environments are those of the sides of the grid."""
    terms: Terms
    rerun: bool
    watched: Callable[[], AbstractContextManager[Audience]]
    """Opens what shows the progress of a part."""

    def environments(self, name: str) -> list[str]:
        """Return an environment of the grid and what is laid on top of it."""
        return environments_of([name], self.project.names)

    def cells(self, base: str) -> tuple[Cell, ...]:
        """Return the cells that were asked for in an environment of the grid."""
        environment = self.project.environments[base]
        return tuple(
            cell
            for name, case in self.project.cases.items()
            if name in self.selection.cases and belongs(case, environment)
            for cell in cells_of(case, base, self.project.matrix.precisions, self.terms.device)
            if self.selection(cell)
        )


def of_pairs(selection: Selection, project: Project, names: list[str]) -> Selection:
    """Leave the cases that are asked about on every pair among the named environments."""
    pairs = {name for name in names if project.environments[name].source is Source.PAIR}
    kept = {
        name for name in selection.cases if pairs <= set(project.cases[name].block.environments)
    }
    return dataclasses.replace(selection, cases=frozenset(kept))
