"""The runs that a search asks for: cells of one environment, stored as every other cell is."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner import running
from runner.campaign import Campaign
from runner.engine.events import not_built
from runner.environments import building
from runner.environments.building import UnbuildableError
from runner.errors import Interrupted
from runner.model.outcomes import Precision
from runner.planning.selection import Selection
from runner.project import recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.engine.events import Terms
    from runner.evidence.store import Store
    from runner.model.cell import Cell
    from runner.model.observation import Observation
    from runner.model.outcomes import Verdict
    from runner.project import Project
    from runner.running import Audience


@dataclass(kw_only=True, slots=True)
class Runs:
    """Builds an environment, runs cells in it and stores them; call it with what to run.

    `ahead` builds what may be asked next while the cells run.
    """

    project: Project
    terms: Terms
    store: Store
    audience: Audience
    ahead: bool = False
    builders: list[threading.Thread] = field(default_factory=list)

    def __call__(
        self, environment: str, cells: Sequence[Cell], following: Sequence[str]
    ) -> Iterable[Observation]:
        """Run cells and return what was seen; raises Interrupted behind what was stored."""
        if self.ahead:
            self._build_ahead(following)
        heard = _Hearing(self.audience)
        tally = running.run(self._campaign(environment, cells), self.store, heard, lambda _: None)
        if tally.interrupted:
            raise Interrupted
        if environment in tally.unbuilt:
            reason, run = tally.unbuilt[environment], self.terms.run
            return not_built(cells, self.project.cases, reason, run)
        return tuple(heard.rows.values())

    def _campaign(self, environment: str, cells: Sequence[Cell]) -> Campaign:
        selection = Selection(
            cases=frozenset(cell.case for cell in cells),
            environments=frozenset([environment]),
            precisions=frozenset(Precision),
            workarounds=None,
            device=self.terms.device,
            only=frozenset(cells),
        )
        return Campaign(
            project=self.project, selection=selection, terms=self.terms, known={}, rerun=True
        )

    def _build_ahead(self, names: Sequence[str]) -> None:
        for name in dict.fromkeys(names):
            thread = threading.Thread(target=self._build, args=(name,), daemon=True)
            self.builders.append(thread)
            thread.start()

    def _build(self, name: str) -> None:
        # It says why when it is asked for in earnest.
        with contextlib.suppress(UnbuildableError):
            building.build(self.project.places, recipe(self.project, name))

    def finish(self) -> None:
        """Wait for what is being built ahead: a folder half made would be made anew."""
        for thread in self.builders:
            thread.join()


class _Hearing:
    """Keeps the last observation of every cell, and lets the audience hear everything."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.rows: dict[Cell, Observation] = {}

    def began(self, units: int, cells: int) -> None:
        self.audience.began(units, cells)

    def phase(self, environment: str, doing: str) -> None:
        self.audience.phase(environment, doing)

    def measured(self, seen: Observation, verdict: Verdict) -> None:
        self.rows[seen.cell] = seen
        self.audience.measured(seen, verdict)

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        self.audience.unbuilt(environment, reason, cells)

    def done(self, environment: str) -> None:
        self.audience.done(environment)
