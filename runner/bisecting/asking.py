"""Searches brought to their ends: evidence first, then the runs that serve most of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.bisecting.finding import Finding
from runner.errors import Interrupted
from runner.searching.oracle import Answer
from runner.searching.sharing import Open, best, served
from runner.searching.transitions import Question, look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.bisecting.search import Search
    from runner.model.cell import Cell
    from runner.model.observation import Observation
    from runner.searching.transitions import Result

    Run = Callable[[str, Sequence[Cell], Sequence[str]], Iterable[Observation]]
    """Runs cells of an environment, given those that may be asked next.

    A cell of which nothing comes back could not be run.
    """


@dataclass(kw_only=True, slots=True)
class Asking:
    """Searches that share what they learn; `known` grows with every run."""

    searches: list[Search]
    known: dict[Cell, Observation]
    contested: frozenset[Cell] = frozenset()
    silent: set[Cell] = field(default_factory=set)
    """Cells that were asked and could not be run."""
    ran: dict[str, list[Cell]] = field(default_factory=dict)

    def step(self, search: Search) -> Question | Result:
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
            if search.runs and isinstance(step := self.step(search), Question)
        ]

    def at_most(self) -> int:
        """Return how many environments are left at most, if the searches share none."""
        return sum(one.question.at_most for _, one in self.open())

    def go(self, run: Run) -> None:
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
                    if isinstance(step, Question):
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


def bring_to_end(asking: Asking, run: Run) -> bool:
    """Go on until all is answered; say whether it was not interrupted."""
    try:
        asking.go(run)
    except Interrupted:
        return False
    return True
