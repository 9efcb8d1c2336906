"""The search over commits: from the boundary of two environments to a commit.

The ends of the line are asked first. Where they do not answer as the releases did, the change is
on the branch of one of the releases, or it is the environment that decides.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.attempt.plan import Asked, Plan, Side
from runner.commits.answers import CommitAnswer, End, Ending, Searched
from runner.commits.bisecting import TRIAL, Bisector, Heard, Span
from runner.errors import Fault, refuse
from runner.history import lines, tags, worktree
from runner.history.repository import OPTION, open_repository
from runner.history.sources import find_sources, tip
from runner.history.twins import twin
from runner.model.cell import Cell
from runner.searching.oracle import Answer
from runner.searching.transitions import Edge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runner.history.lines import Line, Routes
    from runner.history.repository import Repository
    from runner.history.sources import Sources
    from runner.history.tags import Mark
    from runner.history.twins import Twin
    from runner.model.matrix import Limits
    from runner.places import Places

_INWARD = (0, 1, 3, 7)
"""How far from an end a commit may be that answers in its place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiry:
    """A boundary of two environments, both built, and what is asked of the commits between them.

    `good` and `bad` are revisions that take the place of the releases' tags.
    """

    asked: Asked
    edge: Edge
    older: Side
    newer: Side
    limits: Limits
    run: str
    good: str = ""
    bad: str = ""


def search(
    places: Places,
    inquiry: Inquiry,
    repo: Path,
    hear: Callable[[Heard], None] = lambda _: None,
    command: Sequence[str] = TRIAL,
) -> CommitAnswer:
    """Return the commit between two environments that broke a case, or healed it.

    `hear` is told of every line before it is searched, and of every trial. Raises RunnerError for
    a repository that does not serve, and Interrupted; either way nothing stays of the checkouts,
    and what was run is stored.
    """
    repository = open_repository(repo)
    sources = find_sources(repository, tip(repository))
    older, newer = _ends(repository, sources, inquiry)
    routes = lines.between(repository, older, newer)
    plan = Plan(
        places=places,
        asked=inquiry.asked,
        sides=(inquiry.newer, inquiry.older),
        sources=sources,
        limits=inquiry.limits,
        run=inquiry.run,
    )
    with worktree.opened(places.checkouts, repository, sources) as held:
        bisector = Bisector(worktree=held, plan=plan, hear=hear, command=command)
        found = _Route(bisector, routes, inquiry.edge).find()
    answer = CommitAnswer(
        ending=found.ending,
        cell=_cell(inquiry),
        edge=inquiry.edge,
        package=sources.package,
        older=End(mark=older, environment=inquiry.older.environment.name),
        newer=End(mark=newer, environment=inquiry.newer.environment.name),
        trials=tuple(bisector.trials),
        is_dirty=repository.is_dirty(),
    )
    return _told(answer, found, routes, repository)


def _cell(inquiry: Inquiry) -> Cell:
    asked, environment = inquiry.asked, inquiry.newer.environment.name
    return Cell(asked.case.name, asked.workaround, environment, asked.precision, asked.device)


def _ends(repository: Repository, sources: Sources, inquiry: Inquiry) -> tuple[Mark, Mark]:
    """Return the older end and the newer one; a fix is searched from bad to good."""
    good, bad = ("--good", inquiry.good), ("--bad", inquiry.bad)
    options = (good, bad) if inquiry.edge is Edge.RISE else (bad, good)
    sides = (inquiry.older, inquiry.newer)
    if not (inquiry.good and inquiry.bad):
        _refuse_unmoved(sources.package, inquiry)
    older, newer = (
        tags.named(repository, sources, revision, option)
        if revision
        else tags.released(repository, sources, side.environment.version(sources.package))
        for (option, revision), side in zip(options, sides, strict=True)
    )
    return older, newer


def _refuse_unmoved(package: str, inquiry: Inquiry) -> None:
    """Refuse a boundary across which the package of the clone is the same."""
    names = [side.environment.name for side in (inquiry.older, inquiry.newer)]
    older, newer = (side.environment.version(package) for side in (inquiry.older, inquiry.newer))
    if older == newer or not (older and newer):
        found = (
            f"{package} {older or 'missing'} in {names[0]} and {newer or 'missing'} in {names[1]}"
        )
        allowed = "the package that they differ in"
        remedy = "`nox -s blame` says which one it is; --good and --bad name revisions."
        raise refuse(Fault(where=OPTION, found=found, allowed=allowed, remedy=remedy))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    ending: Ending
    line: Line | None = None
    edge: Edge = Edge.RISE
    span: Span | None = None


class _Route:
    """Decides, from what the ends answer, which line is searched."""

    def __init__(self, bisector: Bisector, routes: Routes, edge: Edge) -> None:
        self.bisector = bisector
        self.routes = routes
        self.edge = edge
        self.before, self.after = edge.sides

    def find(self) -> _Found:
        """Ask the ends of the trunk, then search it, or the branch that makes the difference."""
        trunk = self.routes.trunk
        low = self._first_answering(trunk)
        if low is None:
            return _Found(ending=Ending.MUTE)
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

    def _bisect(self, line: Line, older: Answer) -> _Found:
        span = self.bisector.bisect(line, older)
        edge = Edge.RISE if older is Answer.NO else Edge.FALL
        ending = Ending.FOUND if len(span.candidates) == 1 else Ending.CANDIDATES
        return _Found(ending=ending, line=line, edge=edge, span=span)

    def _older_is_new(self, low: str) -> _Found:
        """Find out why the older end of the trunk is of the newer kind already."""
        if low != self.routes.trunk.first:
            return _Found(ending=Ending.MUTE)
        own = self.bisector.ask(low, sides=slice(1, None)).answer
        if own is self.before:
            return _Found(ending=Ending.ENVIRONMENT)
        branch = self.routes.older
        if branch is not None and self._answer(branch.last) is self.before:
            return self._bisect(branch, self.after)
        newest = self.routes.newer or self.routes.trunk
        return self._ends_agree(self.after, self._answer(newest.last))

    def _newer_is_old(self, line: Line, high: Answer) -> _Found:
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

    def _up_to_an_answer(self, line: Line) -> _Found:
        """Let a commit near the newer end stand for it, which does not answer itself."""
        last = self._first_answering(line.backwards)
        if last is None:
            return _Found(ending=Ending.MUTE)
        if self._answer(last) is self.after:
            return self._bisect(line.before(last), self.before)
        place = line.place(last)
        span = Span(last_old=last, first_new=line.last, candidates=line.commits[place + 1 :])
        return _Found(ending=Ending.CANDIDATES, line=line, edge=self.edge, span=span)

    def _ends_agree(self, older: Answer, newer: Answer) -> _Found:
        match older, newer:
            case (_, Answer.UNKNOWN):
                return _Found(ending=Ending.MUTE)
            case (Answer.YES, Answer.YES):
                return _Found(ending=Ending.ALWAYS)
            case (Answer.NO, Answer.NO):
                return _Found(ending=Ending.NEVER)
            case _:
                return _Found(ending=Ending.CONTRARY)


def _told(
    answer: CommitAnswer, found: _Found, routes: Routes, repository: Repository
) -> CommitAnswer:
    """Complete an answer with what the commits say of themselves, and with the twin."""
    if found.line is None or found.span is None:
        return answer
    line, span = found.line, found.span
    searched = Searched(
        name=line.name,
        first=repository.commit(line.first),
        last=repository.commit(line.last),
        count=len(line.commits) - 1,
        edge=found.edge,
    )
    candidates = tuple(map(repository.commit, span.candidates))
    return dataclasses.replace(
        answer,
        searched=searched,
        last_old=repository.commit(span.last_old),
        first_new=repository.commit(span.first_new),
        candidates=candidates,
        twin=_twin(routes, repository, candidates[0].sha) if len(candidates) == 1 else None,
    )


def _twin(routes: Routes, repository: Repository, culprit: str) -> Twin | None:
    """Look for the same change on the other lines."""
    commit = repository.commit(culprit)
    start = routes.trunk.first
    places = [(routes.main, start)] if routes.main else []
    places += [(one.last, one.first) for one in (routes.older, routes.newer) if one]
    names = {routes.main: lines.short(routes.main)}
    names |= {one.last: one.name for one in (routes.older, routes.newer) if one}
    for until, since in places:
        if repository.ask("merge-base", "--is-ancestor", culprit, until) is None:
            found = twin(repository, commit, since, until, names[until])
            if found is not None:
                return found
    return None
