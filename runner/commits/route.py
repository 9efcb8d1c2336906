"""Which line is searched, and whether what was found there holds.

The ends of the line are asked first. Where they do not answer as the releases did, the change is
on the branch of one of the releases, or it is the environment that decides. What was found is
doubted: both sides must be parent and child, differ in one environment, and answer twice alike.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.commits.answers import Doubt, Ending
from runner.commits.bisecting import Span
from runner.history.lines import holding
from runner.searching.oracle import Answer, agreed
from runner.searching.transitions import Edge

if TYPE_CHECKING:
    from runner.commits.bisecting import Bisector
    from runner.history.lines import Line, Routes
    from runner.history.repository import Repository

_INWARD = (0, 1, 3, 7)
"""How far from an end a commit may be that answers in its place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """How the search ended, on which line, and what is left of it."""

    ending: Ending
    line: Line | None = None
    edge: Edge = Edge.RISE
    span: Span | None = None
    doubt: Doubt = Doubt.NONE


class Route:
    """Decides, from what the ends answer, which line is searched."""

    def __init__(
        self, bisector: Bisector, routes: Routes, edge: Edge, repository: Repository
    ) -> None:
        """Nothing is asked before `find`."""
        self.bisector = bisector
        self.routes = routes
        self.edge = edge
        self.repository = repository
        self.before, self.after = edge.sides

    def find(self) -> Found:
        """Search a line and doubt what was found; raises RunnerError and Interrupted."""
        return self._twice(self._in_one_environment(self._found()))

    def _found(self) -> Found:
        """Ask the ends of the trunk, then search it, or the branch that makes the difference."""
        trunk = self.routes.trunk
        low = self._first_answering(trunk)
        if low is None:
            return Found(ending=Ending.MUTE)
        if self._answer(low) is self.after:
            return self._older_is_new(low)
        line = trunk.since(low)
        high = self._answer(line.last)
        if high is self.after:
            return self._bisect(line, self.before)
        return self._newer_is_old(line, high)

    def _answer(self, commit: str) -> Answer:
        return self.bisector.answer(commit) or self.bisector.ask(commit).answer

    def _first_answering(self, line: Line) -> str | None:
        """Return the first commit of a line that answers, or one near it."""
        near = [line.commits[step] for step in _INWARD if step < len(line.commits)]
        return next((one for one in near if self._answer(one) is not Answer.UNKNOWN), None)

    def _bisect(self, line: Line, older: Answer) -> Found:
        """Search a line; what it joins by a merge alone is no parent of what follows."""
        found = self._searched(line, older)
        assert found.span is not None  # noqa: S101 - a line that was searched leaves one
        parent = self.bisector.parent(found.span.candidates[0])
        if parent == found.span.last_old:
            return found
        if parent and self._answer(parent) is older:
            return dataclasses.replace(found, span=dataclasses.replace(found.span, last_old=parent))
        joined = holding(self.repository, line.since(found.span.last_old))
        if found.span.candidates[0] not in joined.commits:
            return self._bisect(joined, older)
        return dataclasses.replace(found, ending=Ending.CANDIDATES, doubt=Doubt.PARENT)

    def _searched(self, line: Line, older: Answer) -> Found:
        span = self.bisector.bisect(line, older)
        edge = Edge.RISE if older is Answer.NO else Edge.FALL
        ending = Ending.FOUND if len(span.candidates) == 1 else Ending.CANDIDATES
        return Found(ending=ending, line=line, edge=edge, span=span)

    def _older_is_new(self, low: str) -> Found:
        """Find out why the older end of the trunk is of the newer kind already."""
        trunk, branch = self.routes.trunk, self.routes.older
        older = self.bisector.plan.sides[-1].environment.name
        if self.bisector.ask(low, within=older).answer is self.before:
            return Found(ending=Ending.ENVIRONMENT)
        if low != trunk.first:
            left = trunk.before(low).commits[1:]
            span = Span(last_old="", first_new=low, candidates=left)
            return self._half(trunk, span, Doubt.OLDER_END)
        if branch is not None and self._answer(branch.last) is self.before:
            return self._bisect(branch, self.after)
        newest = self.routes.newer or trunk
        return self._ends_agree(self.after, self._answer(newest.last))

    def _newer_is_old(self, line: Line, high: Answer) -> Found:
        """Look on the branch of the newer release: the trunk does not end as the release does."""
        branch = self.routes.newer
        if branch is not None:
            high = self._answer(branch.last)
            since = line.last if self._answer(line.last) is self.before else line.first
            line = line.since(since).then(branch)
        match high:
            case Answer.UNKNOWN:
                return self._up_to_an_answer(line)
            case self.after:
                return self._bisect(line, self.before)
            case _:
                return self._ends_agree(self.before, high)

    def _up_to_an_answer(self, line: Line) -> Found:
        """Let a commit near the newer end stand for it, which does not answer itself."""
        last = self._first_answering(line.backwards)
        if last is None:
            return Found(ending=Ending.MUTE)
        if self._answer(last) is self.after:
            return self._bisect(line.before(last), self.before)
        left = line.since(last).commits[1:]
        span = Span(last_old=last, first_new="", candidates=left)
        return self._half(line, span, Doubt.NEWER_END)

    def _half(self, line: Line, span: Span, doubt: Doubt) -> Found:
        """Return what one side alone tells."""
        return Found(ending=Ending.CANDIDATES, line=line, edge=self.edge, span=span, doubt=doubt)

    def _ends_agree(self, older: Answer, newer: Answer) -> Found:
        match older, newer:
            case (_, Answer.UNKNOWN):
                return Found(ending=Ending.MUTE)
            case (Answer.YES, Answer.YES):
                return Found(ending=Ending.ALWAYS)
            case (Answer.NO, Answer.NO):
                return Found(ending=Ending.NEVER)
            case _:
                return Found(ending=Ending.CONTRARY)

    def _in_one_environment(self, found: Found) -> Found:
        """Ask the newer side in the environment of the older, where those are two."""
        span = found.span
        if span is None or not (span.last_old and span.first_new):
            return found
        older = self.bisector.environment(span.last_old)
        if older == self.bisector.environment(span.first_new):
            return found
        match self.bisector.ask(span.first_new, within=older).answer:
            case Answer.UNKNOWN:
                return dataclasses.replace(
                    found, ending=Ending.CANDIDATES, doubt=Doubt.ENVIRONMENTS
                )
            case said if said is self.bisector.answer(span.first_new):
                return found
            case _:
                none = dataclasses.replace(span, candidates=())
                return dataclasses.replace(found, ending=Ending.ENVIRONMENT, span=none)

    def _twice(self, found: Found) -> Found:
        """Run both sides once more; one that contradicts itself decides nothing."""
        span, line = found.span, found.line
        if found.ending is not Ending.FOUND or span is None or line is None:
            return found
        sides = (span.last_old, span.first_new)
        wavering = [one for one in sides if self._confirmed(one) is Answer.UNKNOWN]
        if not wavering:
            return found
        return self._wider(found, line, span, wavering)

    def _confirmed(self, commit: str) -> Answer:
        answers = {commit: self._answer(commit)}
        return agreed(answers, commit, self.bisector.confirm(commit).answer)

    def _wider(self, found: Found, line: Line, span: Span, wavering: list[str]) -> Found:
        """Return what is left between the nearest commits that did not contradict themselves."""
        older, newer = found.edge.sides
        steady = [one for one in line.commits if one not in wavering]
        at = line.place(span.first_new)
        olds = [one for one in steady if line.place(one) < at and self._was(one, older)]
        news = [one for one in steady if line.place(one) >= at and self._was(one, newer)]
        if not (olds and news):
            return Found(ending=Ending.MUTE, doubt=Doubt.CONTRADICTION)
        left = line.since(olds[-1]).before(news[0]).commits[1:]
        wide = Span(last_old=olds[-1], first_new=news[0], candidates=left)
        return dataclasses.replace(
            found, ending=Ending.CANDIDATES, span=wide, doubt=Doubt.CONTRADICTION
        )

    def _was(self, commit: str, answer: Answer) -> bool:
        return self.bisector.answer(commit) is answer
