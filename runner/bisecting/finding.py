"""What a search found, with the observations that say so. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import ExitCode
from runner.searching.oracle import Answer
from runner.searching.transitions import Edge, Ending, Question, changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.bisecting.search import Search
    from runner.model.cell import Cell
    from runner.model.observation import Observation
    from runner.searching.transitions import Change, Result


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The answer to a search, or how far it came.

    `ran` are the environments that were run for it; `contested` the points of which published
    evidence and this machine's say different things.
    """

    search: Search
    step: Result | Question
    known: Mapping[Cell, Observation]
    ran: tuple[str, ...] = ()
    contested: tuple[int, ...] = ()

    @property
    def answers(self) -> dict[int, Answer]:
        """What every point that was asked says."""
        return self.search.answers(self.known)

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes that the answers show, in order."""
        return changes(self.answers)

    @property
    def found(self) -> Change | None:
        """The change that was looked for."""
        return None if isinstance(self.step, Question) else self.step.found

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
        if isinstance(self.step, Question):
            return ()
        quiet = [place for place, one in self.answers.items() if one is Answer.UNKNOWN]
        match self.step.ending, self.ends():
            case Ending.FOUND, _:
                return tuple(self.found.between) if self.found else ()
            case Ending.ALWAYS, (int(first), int(last)):
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
        if isinstance(self.step, Question) or self.silent:  # an answer with a gap is none
            return ExitCode.UNDECIDED
        match self.step.ending:
            case Ending.FOUND:
                return ExitCode.AS_EXPECTED
            case Ending.NEVER:
                return ExitCode.NOT_REPRODUCED
            case Ending.UNDECIDED:
                return ExitCode.UNDECIDED
            case Ending.ALWAYS:
                born = self.search.sought.edge is Edge.RISE and bool(self.search.older)
                return ExitCode.AS_EXPECTED if born else ExitCode.FAILS_ON_BOTH_SIDES


def together(findings: Iterable[Finding]) -> ExitCode:
    """Return what answers tell a script: one its own code, several whether all are decided."""
    codes = [finding.code for finding in findings]
    if len(codes) == 1:
        return codes[0]
    undecided = ExitCode.UNDECIDED in codes
    return ExitCode.UNDECIDED if undecided else ExitCode.AS_EXPECTED
