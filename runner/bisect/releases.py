"""Which release breaks a case and which fixes it: from evidence, then from runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import (
    Answer,
    Edge,
    Open,
    Result,
    SearchOutcome,
    SearchQuestion,
    Sought,
    Transition,
    best,
    changes,
    look,
    served,
)
from repromatrix.runner.errors import ExitCode, Interrupted
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms, not_built
from repromatrix.runner.execution.run import Run, RunListener
from repromatrix.runner.judging.ranges import Axis, Point, axes
from repromatrix.runner.judging.verdicts import expected
from repromatrix.runner.model.case import EVERY, Case
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS
from repromatrix.runner.model.requirements import holds
from repromatrix.runner.planning.selection import Selection
from repromatrix.runner.project import Project


def judged(known: Mapping[Cell, Observation]) -> dict[Cell, Observation]:
    """Return what the code decided; where memory ran out, the machine did: it is run again."""
    return {cell: row for cell, row in known.items() if not row.outcome.blames_machine}


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A question about one case along one axis: the releases, or the versions of a package.

    `older` are those before the first that can run the case, each with the reason why it cannot;
    `left_out` cannot run it either, and come later. An axis for which `runs` is off is answered
    from evidence only.
    """

    question: CaseQuestion
    axis: Axis
    sought: Sought
    older: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    runs: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The environments of its points, in order."""
        return tuple(point.environment for point in self.axis)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of its points, in order."""
        return tuple(map(self.question.cell, self.names))

    def cell(self, place: int) -> Cell:
        """Return the cell at a point."""
        return self.question.cell(self.axis[place].environment)

    def answers(self, known: Mapping[Cell, Observation]) -> dict[int, Answer]:
        """Return what is known of its points."""
        return {
            place: self.question.answer(known[cell])
            for place, cell in enumerate(self.cells)
            if cell in known
        }

    def recognising(self, known: Mapping[Cell, Observation]) -> Search:
        """Return the search with the signature that bad means, once a failure was seen."""
        rows = (known[cell] for cell in reversed(self.cells) if cell in known)
        return dataclasses.replace(self, question=self.question.recognising(rows))


def searches(
    question: CaseQuestion,
    sought: Sought,
    environments: Mapping[str, Environment],
    within: Collection[str] | None = None,
) -> tuple[Search, ...]:
    """Return the search along the releases, and one along each package that has pairs.

    Where no release can run the case, the axis is empty and `older` holds all of them. `within`
    narrows the releases. `main` is left to `matrix`: it is a different commit every day.
    """
    found = []
    for axis in axes(question.case, environments):
        sources = {point: environments[point.environment].source for point in axis}
        points = [point for point in axis if sources[point] is not Source.MAIN]
        pairs = any(sources[point] is Source.PAIR for point in points)
        chosen = [point for point in points if within is None or pairs or point.label in within]
        found.append(_along(question, sought, environments, chosen, runs=not pairs))
    return tuple(search for search in found if search.axis or search.older)


def _along(
    question: CaseQuestion,
    sought: Sought,
    environments: Mapping[str, Environment],
    points: list[Point],
    *,
    runs: bool,
) -> Search:
    apart = {
        place: "; ".join(reasons)
        for place, point in enumerate(points)
        if (reasons := obstacles(question.case, environments[point.environment], question.device))
    }
    axis = tuple(point for place, point in enumerate(points) if place not in apart)
    first = points.index(axis[0]) if axis else len(points)
    hints = _hints(question, sought.edge, environments, axis)
    probes = _first_of_lines(axis, environments) if runs else ()
    return Search(
        question=question,
        axis=axis,
        sought=dataclasses.replace(sought, hints=hints, probes=probes),
        older={points[at].label: reason for at, reason in apart.items() if at < first},
        left_out={points[at].label: reason for at, reason in apart.items() if at > first},
        runs=runs,
    )


def _hints(
    question: CaseQuestion, edge: Edge, environments: Mapping[str, Environment], axis: Axis
) -> tuple[int, ...]:
    """Return both sides of the first change that the case expects: they are asked early."""
    said: dict[int, Answer] = {}
    for place, point in enumerate(axis):
        environment = environments[point.environment]
        entry = expected(question.case, question.cell(environment.name), environment)
        said[place] = Answer.NO if entry is None else Answer.YES
    sides = ((change.at, change.before) for change in changes(said) if change.edge is edge)
    return next(sides, ())


def _first_of_lines(axis: Axis, environments: Mapping[str, Environment]) -> tuple[int, ...]:
    """Return the first release of each minor line, newest first; a stack is of no line."""
    first: dict[tuple[int, ...], int] = {}
    for place, point in enumerate(axis):
        environment = environments[point.environment]
        if environment.source is Source.RELEASE:
            minor = Version(environment.version(TRANSFORMERS)).release[:2]
            first.setdefault(minor, place)
    return tuple(sorted(first.values(), reverse=True))


def failing_precisions(case: Case, workaround: str, torch: str) -> tuple[Precision, ...]:
    """Return the precisions in which a case says that it, or a workaround of it, fails.

    `torch` is the version that the releases are measured with: what fails with others alone is left
    out.
    """
    named = {
        precision
        for entry in case.block.fails
        if workaround in entry.workarounds or EVERY in entry.workarounds
        if not entry.variants or case.variant in entry.variants
        if all(holds(each, {TORCH: torch}, {}) for each in entry.when if each.name == TORCH)
        for precision in entry.precisions
    }
    return tuple(precision for precision in Precision if precision in named)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The answer to a search, or how far it came."""

    search: Search
    step: Result | SearchQuestion
    known: Mapping[Cell, Observation]
    ran: tuple[str, ...] = ()
    """The environments that were run for it."""
    contested: Mapping[int, Observation] = field(default_factory=dict)
    """The points about which sources disagreed before anything was run."""

    @property
    def answers(self) -> dict[int, Answer]:
        """What every point that was asked says."""
        return self.search.answers(self.known)

    @property
    def changes(self) -> tuple[Transition, ...]:
        """All changes that the answers show, in order."""
        return changes(self.answers)

    @property
    def found(self) -> Transition | None:
        """The change that was looked for."""
        return None if isinstance(self.step, SearchQuestion) else self.step.found

    @property
    def silent(self) -> tuple[int, ...]:
        """The points that gave no answer and thereby leave the result open.

        For a change, those between both sides. Where the first release fails already (or the last
        one still), those beyond it. Otherwise all of them.
        """
        if isinstance(self.step, SearchQuestion):
            return ()
        quiet = [place for place, one in self.answers.items() if one is Answer.UNKNOWN]
        match self.step.ending, self.ends():
            case SearchOutcome.FOUND, _:
                return tuple(self.found.between) if self.found else ()
            case SearchOutcome.ALWAYS, (int(first), int(last)):
                rise = self.search.sought.edge is Edge.RISE
                return tuple(one for one in quiet if (one < first if rise else one > last))
            case _:
                return tuple(quiet)

    def at(self, place: int) -> Observation:
        """Return what was seen at a point that was asked."""
        return self.known[self.search.cell(place)]

    def ends(self) -> tuple[int, int] | None:
        """Return the first and the last point that answer."""
        said = [place for place, one in sorted(self.answers.items()) if one is not Answer.UNKNOWN]
        return (said[0], said[-1]) if said else None

    @property
    def ends_pass(self) -> bool:
        """Whether the first and the last point that answer are good."""
        return {self.answers[place] for place in self.ends() or ()} == {Answer.NO}

    @property
    def code(self) -> ExitCode:
        """The exit code.

        A case that fails in the first release that can run it at all is answered: no older release
        could be its good side.
        """
        if isinstance(self.step, SearchQuestion) or self.silent:
            return ExitCode.UNDECIDED
        match self.step.ending:
            case SearchOutcome.FOUND:
                return ExitCode.AS_EXPECTED
            case SearchOutcome.NEVER:
                return ExitCode.NOT_REPRODUCED
            case SearchOutcome.UNDECIDED:
                return ExitCode.UNDECIDED
            case SearchOutcome.ALWAYS:
                born = self.search.sought.edge is Edge.RISE and bool(self.search.older)
                return ExitCode.AS_EXPECTED if born else ExitCode.FAILS_ON_BOTH_SIDES


def together(findings: Iterable[Finding]) -> ExitCode:
    """Return the exit code of a command: of several answers only whether all are decided."""
    codes = [finding.code for finding in findings]
    if len(codes) == 1:
        return codes[0]
    return ExitCode.UNDECIDED if ExitCode.UNDECIDED in codes else ExitCode.AS_EXPECTED


RunCells = Callable[[str, Sequence[Cell]], Iterable[Observation]]
"""Runs cells of an environment; one that is missing from what it returns could not be run."""


def release_runs(project: Project, terms: Terms, store: Store, audience: RunListener) -> RunCells:
    """Return what builds an environment, runs cells in it and stores what they did.

    It raises Interrupted once that is stored.
    """

    def run(environment: str, cells: Sequence[Cell]) -> Iterable[Observation]:
        selection = Selection(
            cases=frozenset(cell.case for cell in cells),
            environments=frozenset([environment]),
            precisions=frozenset(Precision),
            workarounds=None,
            device=terms.device,
            only=frozenset(cells),
        )
        planned = Run(project=project, selection=selection, terms=terms, rerun=True, keep_rows=True)
        tally = planned.execute(store, audience)
        if tally.interrupted:
            raise Interrupted
        if environment in tally.unbuilt:
            return not_built(cells, project.cases, tally.unbuilt[environment], terms.run)
        return tuple(tally.rows.values())

    return run


@dataclass(kw_only=True, slots=True)
class ReleaseSearches:
    """Searches that share their runs; `known` grows with every run."""

    searches: list[Search]
    known: dict[Cell, Observation]
    contested: Mapping[Cell, Observation] = field(default_factory=dict)
    silent: set[Cell] = field(default_factory=set)
    """Cells that could not be run."""
    ran: dict[str, list[Cell]] = field(default_factory=dict)

    def step(self, search: Search) -> SearchQuestion | Result:
        """Return where a search stands."""
        return look(len(search.axis), self._answers(search), search.sought)

    def _answers(self, search: Search) -> dict[int, Answer]:
        silent = [place for place, cell in enumerate(search.cells) if cell in self.silent]
        return dict.fromkeys(silent, Answer.UNKNOWN) | search.answers(self.known)

    def open(self) -> list[tuple[Search, Open[str]]]:
        """Return the searches that need a run, with their questions."""
        self.searches = [search.recognising(self.known) for search in self.searches]
        return [
            (search, Open(search.names, self._answers(search), step))
            for search in self.searches
            if search.runs and isinstance(step := self.step(search), SearchQuestion)
        ]

    def go(self, run: RunCells) -> None:
        """Run until every search has its answer; raises Interrupted, what was learned is kept."""
        while still := self.open():
            environment = best([asking for _, asking in still])
            cells = [
                search.cell(search.names.index(environment))
                for search, asking in still
                if served(asking, environment)
            ]
            rows = run(environment, cells)
            self.known.update((row.cell, row) for row in rows)
            self.ran[environment] = cells
            self.silent.update(cell for cell in cells if cell not in self.known)

    def findings(self) -> tuple[Finding, ...]:
        """Return how far every search came."""
        return tuple(
            Finding(
                search=search,
                step=self.step(search),
                known={cell: self.known[cell] for cell in search.cells if cell in self.known},
                ran=tuple(
                    name for name, cells in self.ran.items() if search.question.cell(name) in cells
                ),
                contested={
                    place: self.contested[cell]
                    for place, cell in enumerate(search.cells)
                    if cell in self.contested
                },
            )
            for search in self.searches
        )
