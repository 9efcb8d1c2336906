"""Which release breaks a case and which fixes it, from evidence. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from repromatrix.runner.bisect.oracle import answer
from repromatrix.runner.bisect.search import (
    Answer,
    Edge,
    Result,
    SearchOutcome,
    SearchQuestion,
    Sought,
    Transition,
    changes,
)
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.judging.axes import Axis, Point, axes
from repromatrix.runner.judging.expectations import expected, is_current
from repromatrix.runner.model.case import EVERY, Case
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision


def current(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[dict[Cell, Observation], frozenset[Cell]]:
    """Return the current row that answers for each cell, and the cells that are disputed.

    A disputed cell counts as not known, so the search asks it again.
    """
    known = {
        cell: row
        for cell, row in answering_rows(rows, cases, environments).items()
        if (case := cases.get(cell.case)) is not None
        and (environment := environments.get(cell.environment)) is not None
        and is_current(row, case, environment)
    }
    contested = frozenset(cell for cell, row in known.items() if row.sides)
    return {cell: row for cell, row in known.items() if cell not in contested}, contested


def judged(known: Mapping[Cell, Observation]) -> dict[Cell, Observation]:
    """Return what the code decided; what the machine did (memory ran out) is asked again."""
    return {cell: row for cell, row in known.items() if not row.outcome.blames_machine}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRequest:
    """What is asked of every case."""

    precision: Precision
    device: Device
    workaround: str
    edge: Edge
    every: bool = False
    any_failure: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SeparateCase:
    """A point that cannot be asked, and what keeps the case from it."""

    label: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A question about one case along one axis.

    `older` are points before the first that can run the case, `left_out` such points behind it.
    `runs` is off for an axis that is only answered from evidence.
    """

    case: Case
    wanted: ReleaseRequest
    axis: Axis
    sought: Sought
    older: tuple[SeparateCase, ...] = ()
    left_out: tuple[SeparateCase, ...] = ()
    signature: str = ""
    """What bad means for a case that describes no failure: the signature that was seen first."""
    runs: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The environments of its points, in order."""
        return tuple(point.environment for point in self.axis)

    def cell(self, place: int) -> Cell:
        """Return the cell at a point."""
        wanted = self.wanted
        environment = self.axis[place].environment
        return Cell(self.case.name, wanted.workaround, environment, wanted.precision, wanted.device)

    def answers(self, known: Mapping[Cell, Observation]) -> dict[int, Answer]:
        """Return what is known of its points."""
        return {
            place: self.answer(known[cell])
            for place in range(len(self.axis))
            if (cell := self.cell(place)) in known
        }

    def answer(self, seen: Observation | None) -> Answer:
        """Say whether an observation is bad in the sense of this search."""
        return answer(
            self.case, seen, any_failure=self.wanted.any_failure, signature=self.signature
        )

    def recognising(self, known: Mapping[Cell, Observation]) -> Search:
        """Return the search with the signature that bad means, once a failure was seen."""
        if self.case.block.fails or self.wanted.any_failure or self.signature:
            return self
        rows = (known.get(self.cell(place)) for place in reversed(range(len(self.axis))))
        failed = next(
            (row.failed for row in rows if row and row.outcome.is_failure and row.failed), None
        )
        return dataclasses.replace(self, signature=failed.signature) if failed else self


def searches(
    case: Case,
    wanted: ReleaseRequest,
    environments: Mapping[str, Environment],
    within: Collection[str] | None = None,
) -> tuple[Search, ...]:
    """Return the search along the releases, and one along each package of which there are pairs.

    One that no release can run has an empty axis, and all of them in `older`. `within` narrows the
    releases. `main` is left to `matrix`: it is a different commit every day.
    """
    found = []
    for axis in axes(case, environments):
        points = [one for one in axis if environments[one.environment].source is not Source.MAIN]
        pairs = any(environments[one.environment].source is Source.PAIR for one in points)
        chosen = [one for one in points if within is None or pairs or one.label in within]
        found.append(_along(case, wanted, environments, chosen, runs=not pairs))
    return tuple(one for one in found if one.axis or one.older)


def _along(
    case: Case,
    wanted: ReleaseRequest,
    environments: Mapping[str, Environment],
    points: list[Point],
    *,
    runs: bool,
) -> Search:
    reasons = {one: obstacles(case, environments[one.environment], wanted.device) for one in points}
    axis = tuple(one for one in points if not reasons[one])
    apart = [
        (one, SeparateCase(label=one.label, reason="; ".join(reasons[one])))
        for one in points
        if reasons[one]
    ]
    first = points.index(axis[0]) if axis else len(points)
    return Search(
        case=case,
        wanted=wanted,
        axis=axis,
        sought=Sought(
            edge=wanted.edge,
            hints=tuple(_hints(case, wanted, environments, axis)),
            every=wanted.every,
        ),
        older=tuple(why for one, why in apart if points.index(one) < first),
        left_out=tuple(why for one, why in apart if points.index(one) > first),
        runs=runs,
    )


def _hints(
    case: Case, wanted: ReleaseRequest, environments: Mapping[str, Environment], axis: Axis
) -> Iterator[int]:
    """Yield both sides of the first change that the case expects: they are asked early."""
    said: dict[int, Answer] = {}
    for place, point in enumerate(axis):
        cell = Cell(
            case.name, wanted.workaround, point.environment, wanted.precision, wanted.device
        )
        entry = expected(case, cell, environments[point.environment])
        said[place] = Answer.NO if entry is None else Answer.YES
    first = next((one for one in changes(said) if one.edge is wanted.edge), None)
    if first is not None:
        yield from (first.at, first.before)


def failing_precisions(case: Case, workaround: str) -> tuple[Precision, ...]:
    """Return the precisions in which a case says that it, or a workaround of it, fails."""
    named = {
        precision
        for entry in case.block.fails
        if workaround in entry.workarounds or EVERY in entry.workarounds
        for precision in entry.precisions
    }
    return tuple(precision for precision in Precision if precision in named)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The answer to a search, or how far it came.

    `ran` are the environments that were run for it; `contested` the points of which published
    evidence and this machine's say different things.
    """

    search: Search
    step: Result | SearchQuestion
    known: Mapping[Cell, Observation]
    ran: tuple[str, ...] = ()
    contested: tuple[int, ...] = ()

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
    def sides(self) -> tuple[Observation, Observation] | None:
        """The observations on both sides of what was found."""
        if self.found is None:
            return None
        return self.at(self.found.before), self.at(self.found.at)

    @property
    def silent(self) -> tuple[int, ...]:
        """The points that were asked, do not answer, and leave the answer open by that.

        Of a change those between both sides; where there is none those beyond the end that says
        so; and where nothing was reproduced all of them.
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
    def code(self) -> ExitCode:
        """What this answer tells a script.

        A case that fails in the first release that can run it at all is answered: there is no
        older release that could be its good side.
        """
        if isinstance(self.step, SearchQuestion) or self.silent:  # an answer with a gap is none
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
    """Return what answers tell a script: one its own code, several whether all are decided."""
    codes = [finding.code for finding in findings]
    if len(codes) == 1:
        return codes[0]
    undecided = ExitCode.UNDECIDED in codes
    return ExitCode.UNDECIDED if undecided else ExitCode.AS_EXPECTED
