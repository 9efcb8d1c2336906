"""Run what a search over releases still needs, evidence first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from repromatrix.runner.bisect.releases import Finding, Search
from repromatrix.runner.bisect.search import (
    Answer,
    Open,
    Result,
    SearchQuestion,
    best,
    look,
    served,
)
from repromatrix.runner.environments import building
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms, not_built
from repromatrix.runner.execution.run import Run, RunListener
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.planning.selection import Selection
from repromatrix.runner.project import Project, recipe

RunCells = Callable[[str, Sequence[Cell], Sequence[str]], Iterable[Observation]]
"""Runs cells of an environment, given those that may be asked next.

    A cell of which nothing comes back could not be run.
    """


@dataclass(kw_only=True, slots=True)
class ReleaseRuns:
    """Builds an environment, runs cells in it and stores them; call it with what to run.

    `ahead` builds what may be asked next while the cells run.
    """

    project: Project
    terms: Terms
    store: Store
    audience: RunListener
    ahead: bool = False
    builders: list[threading.Thread] = field(default_factory=list)

    def __call__(
        self, environment: str, cells: Sequence[Cell], following: Sequence[str]
    ) -> Iterable[Observation]:
        """Run cells and return what was seen; raises Interrupted behind what was stored."""
        if self.ahead:
            self._build_ahead(following)
        tally = self._run(environment, cells).execute(self.store, self.audience)
        if tally.interrupted:
            raise Interrupted
        if environment in tally.unbuilt:
            reason, run = tally.unbuilt[environment], self.terms.run
            return not_built(cells, self.project.cases, reason, run)
        return tuple(tally.rows.values())

    def _run(self, environment: str, cells: Sequence[Cell]) -> Run:
        selection = Selection(
            cases=frozenset(cell.case for cell in cells),
            environments=frozenset([environment]),
            precisions=frozenset(Precision),
            workarounds=None,
            device=self.terms.device,
            only=frozenset(cells),
        )
        return Run(project=self.project, selection=selection, terms=self.terms, rerun=True)

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


@dataclass(kw_only=True, slots=True)
class ReleaseSearches:
    """Searches that share what they learn; `known` grows with every run."""

    searches: list[Search]
    known: dict[Cell, Observation]
    contested: frozenset[Cell] = frozenset()
    silent: set[Cell] = field(default_factory=set)
    """Cells that were asked and could not be run."""
    ran: dict[str, list[Cell]] = field(default_factory=dict)

    def step(self, search: Search) -> SearchQuestion | Result:
        """Return where a search stands."""
        return look(len(search.axis), self._answers(search), search.sought)

    def _answers(self, search: Search) -> dict[int, Answer]:
        silent = {
            place: Answer.UNKNOWN
            for place in range(len(search.axis))
            if search.cell(place) in self.silent
        }
        return silent | search.answers(self.known)

    def open(self) -> list[tuple[Search, Open[str]]]:
        """Return the searches that still ask, with their questions."""
        self.searches = [search.recognising(self.known) for search in self.searches]
        return [
            (search, Open(search.names, self._answers(search), step))
            for search in self.searches
            if search.runs and isinstance(step := self.step(search), SearchQuestion)
        ]

    def at_most(self) -> int:
        """Return how many environments are left at most, if the searches share none."""
        return sum(one.question.at_most for _, one in self.open())

    def go(self, run: RunCells) -> None:
        """Ask until every search has its answer; raises Interrupted with what was learned kept."""
        while asking := self.open():
            environment = best([one for _, one in asking])
            cells = [
                search.cell(search.names.index(environment))
                for search, one in asking
                if served(one, environment)
            ]
            rows = run(environment, cells, tuple(self._following(asking, environment)))
            self.known.update((seen.cell, seen) for seen in rows)
            self.ran[environment] = cells
            self.silent.update(cell for cell in cells if cell not in self.known)

    def _following(
        self, asking: Sequence[tuple[Search, Open[str]]], environment: str
    ) -> Iterator[str]:
        """Yield what is asked next if a search hears yes, and if it hears no."""
        for search, one in asking:
            place = one.question.point
            for said in (Answer.YES, Answer.NO):
                if search.names[place] == environment:
                    answers = {**one.answers, place: said}
                    step = look(len(search.axis), answers, search.sought)
                    if isinstance(step, SearchQuestion):
                        yield search.names[step.point]

    def findings(self) -> tuple[Finding, ...]:
        """Return how far every search came."""
        return tuple(
            Finding(
                search=search,
                step=self.step(search),
                known=_of(search, self.known),
                ran=tuple(
                    name
                    for name, cells in self.ran.items()
                    if name in search.names and search.cell(search.names.index(name)) in cells
                ),
                contested=tuple(
                    place
                    for place in range(len(search.axis))
                    if search.cell(place) in self.contested
                ),
            )
            for search in self.searches
        )


def _of(search: Search, known: Mapping[Cell, Observation]) -> dict[Cell, Observation]:
    cells = [search.cell(place) for place in range(len(search.axis))]
    return {cell: known[cell] for cell in cells if cell in known}


def bring_to_end(asking: ReleaseSearches, run: RunCells) -> bool:
    """Go on until all is answered; say whether it was not interrupted."""
    try:
        asking.go(run)
    except Interrupted:
        return False
    return True
