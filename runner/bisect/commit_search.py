"""Search commits: many questions at once, each commit that is checked out serving all of them.

A line of commits is a list of points like the releases are. Each search says which commit it needs
next; the one from which all of them learn most is tried.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.commit_trials import CommitRuns, CommitTrial, Trial
from repromatrix.runner.bisect.commits import (
    CommitAnswer,
    CommitOutcome,
    Doubt,
    End,
    Heard,
    Searched,
)
from repromatrix.runner.bisect.git_lines import CommitLine, Routes, TaggedCommit, Twin
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import OPTION, Repository, opened
from repromatrix.runner.bisect.search import (
    Answer,
    Edge,
    Open,
    SearchQuestion,
    Sought,
    Transition,
    agreed,
    best,
    changes,
    look,
    served,
)
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.text import join

TryCommits = Callable[[Trial, Sequence[CaseQuestion]], Sequence[CommitTrial]]
"""Tries a commit and returns its answer to each question, in their order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What a search needs next; where it is halving a line, `open` says what else would help."""

    trial: Trial
    open: Open[str] | None = None

    def is_helped_by(self, trial: Trial) -> bool:
        """Say whether a search that asks this learns anything from a trial."""
        if trial == self.trial:
            return True
        plain = not (trial.within or trial.again)
        return plain and self.open is not None and served(self.open, trial.commit)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitSpan:
    """What is left of a line: the commits after the last one like the older end.

    A side that was not judged is empty.
    """

    last_old: str
    first_new: str
    candidates: tuple[str, ...]


_SILENCE = 16
"""Commits between two answers that could not be judged, after which no more are tried."""

_INWARD = (0, 1, 3, 7)
"""Distances from an end of the commits that are tried in its place if it cannot be judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """How the search ended, on which line, and which commits are left."""

    ending: CommitOutcome
    line: CommitLine | None = None
    edge: Edge = Edge.RISE
    span: CommitSpan | None = None
    doubt: Doubt = Doubt.NONE


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiry:
    """Two environments in which a case differs, and what is asked of the commits between them.

    `good` and `bad` are revisions that take the place of the environments' releases; where both
    are given, there need not be environments.
    """

    asked: CaseQuestion
    edge: Edge
    older: Environment | None = None
    newer: Environment | None = None
    good: str = ""
    bad: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """The names of the older and of the newer environment; empty without one."""
        return self.older.name if self.older else "", self.newer.name if self.newer else ""

    def versions(self, package: str) -> tuple[str, str]:
        """Return the version of a package in either; empty where it is missing."""
        older, newer = self.older, self.newer
        return older.version(package) if older else "", newer.version(package) if newer else ""


Steps = Generator[Ask, None, Answer]
Finding = Generator[Ask, None, Found]


class CommitSearch:
    """One question about the commits between two ends: says what to try next, and hears of it."""

    def __init__(
        self, inquiry: Inquiry, clone: Clone, hear: Callable[[Heard], None] = lambda _: None
    ) -> None:
        """Try nothing yet; raises RunnerError where there is no way between the ends."""
        self.inquiry = inquiry
        self.clone = clone
        self.hear = hear
        self.older, self.newer = _ends(clone, inquiry)
        self.routes = clone.routes(self.older, self.newer)
        self.before, self.after = inquiry.edge.sides
        self.trials: list[CommitTrial] = []
        self.confirmations: list[CommitTrial] = []

    def take(self, trial: CommitTrial) -> None:
        """Hear what a commit answered."""
        (self.confirmations if trial.again else self.trials).append(trial)
        self.hear(trial)

    def known(self, commit: str) -> Answer | None:
        """Return the first answer of a commit, or None where it was not tried.

        A second trial is about another environment alone.
        """
        return next((trial.answer for trial in self.trials if trial.commit == commit), None)

    def steps(self) -> Finding:
        """Yield what is to be tried, and return how the search ended."""
        found = yield from self._found()
        found = yield from self._in_one_environment(found)
        return (yield from self._twice(found))

    def answer(self, found: Found) -> CommitAnswer:
        """Return the answer, with dates and subjects of its commits, and with the twin."""
        answer = CommitAnswer(
            ending=found.ending,
            question=self.inquiry.asked,
            edge=self.inquiry.edge,
            package=self.clone.sources.package,
            older=End(mark=self.older, environment=self.inquiry.names[0]),
            newer=End(mark=self.newer, environment=self.inquiry.names[1]),
            doubt=found.doubt,
            trials=tuple(self.trials),
            confirmations=tuple(self.confirmations),
            is_dirty=self.clone.is_dirty,
        )
        return _completed(answer, found, self.routes, self.clone.repository)

    def _found(self) -> Finding:
        """Ask the ends of the trunk, then search it, or the branch that makes the difference."""
        trunk = self.routes.trunk
        low = yield from self._first_answering(trunk)
        if low is None:
            return (yield from self._since_earlier())
        if self.known(low) is self.after:
            return (yield from self._older_is_new(low))
        return (yield from self._since(trunk.since(low)))

    def _since(self, line: CommitLine) -> Finding:
        """Search a line whose first commit is like the older end."""
        high = yield from self._answer(line.last)
        if high is self.after:
            return (yield from self._bisect(line, self.before))
        return (yield from self._newer_is_old(line, high))

    def _answer(self, commit: str) -> Steps:
        if self.known(commit) is None:
            yield Ask(trial=Trial(commit))
        known = self.known(commit)
        assert known is not None  # noqa: S101 - whoever goes on has taken the trial
        return known

    def _first_answering(self, line: CommitLine) -> Generator[Ask, None, str | None]:
        """Return the first commit of a line that can be judged, or one near it."""
        for step in _INWARD:
            if step < len(line.commits):
                answer = yield from self._answer(line.commits[step])
                if answer is not Answer.UNKNOWN:
                    return line.commits[step]
        return None

    def _bisect(self, line: CommitLine, older: Answer) -> Finding:
        """Search a line; a commit that it joins by a merge is no parent of the one that follows."""
        found = yield from self._searched(line, older)
        assert found.span is not None  # noqa: S101 - a line that was searched leaves one
        parent = self.clone.repository.parent(found.span.candidates[0])
        if parent == found.span.last_old:
            return found
        if parent and (yield from self._answer(parent)) is older:
            return dataclasses.replace(found, span=dataclasses.replace(found.span, last_old=parent))
        joined = git_lines.holding(self.clone.repository, line.since(found.span.last_old))
        if found.span.candidates[0] not in joined.commits:
            return (yield from self._bisect(joined, older))
        return dataclasses.replace(found, ending=CommitOutcome.CANDIDATES, doubt=Doubt.PARENT)

    def _searched(self, line: CommitLine, older: Answer) -> Finding:
        """Halve a line whose ends answered."""
        edge = Edge.RISE if older is Answer.NO else Edge.FALL
        self.hear(line)
        while True:
            answers = {
                place: known
                for place, commit in enumerate(line.commits)
                if (known := self.known(commit)) is not None
            }
            step = look(len(line.commits), answers, Sought(edge=edge))
            if not isinstance(step, SearchQuestion):
                break
            if silent := _silent(answers, edge):
                return self._between(line, edge, silent, Doubt.SILENCE)
            asked = Trial(line.commits[step.point])
            yield Ask(trial=asked, open=Open(line.commits, answers, step))
        assert step.found is not None  # noqa: S101 - its two ends differ
        return self._between(line, edge, step.found)

    def _between(
        self, line: CommitLine, edge: Edge, found: Transition, doubt: Doubt = Doubt.NONE
    ) -> Found:
        """Return the commits between two that answered differently."""
        span = CommitSpan(
            last_old=line.commits[found.before],
            first_new=line.commits[found.at],
            candidates=line.commits[found.before + 1 : found.at + 1],
        )
        ending = CommitOutcome.FOUND if len(span.candidates) == 1 else CommitOutcome.CANDIDATES
        return Found(ending=ending, line=line, edge=edge, span=span, doubt=doubt)

    def _older_is_new(self, low: str) -> Finding:
        """Find out why the older end of the trunk already answers as the newer end should."""
        trunk, branch = self.routes.trunk, self.routes.older
        if low != trunk.first:
            left = trunk.before(low).commits[1:]
            span = CommitSpan(last_old="", first_new=low, candidates=left)
            return self._half(trunk, span, Doubt.OLDER_END)
        if branch is not None and (yield from self._answer(branch.last)) is self.before:
            return (yield from self._bisect(branch, self.after))
        earlier = self._earlier()
        if earlier is not None and (yield from self._answer(earlier.first)) is self.before:
            # The end was derived from a version that was opened late: the release lies before it.
            return (yield from self._bisect(earlier, self.before))
        newest = self.routes.newer or trunk
        return self._ends_agree(self.after, (yield from self._answer(newest.last)))

    def _since_earlier(self) -> Finding:
        """Search from the first commit at which a derived older end can lie, if there is one."""
        earlier = self._earlier()
        if earlier is None or (yield from self._answer(earlier.first)) is not self.before:
            return Found(ending=CommitOutcome.MUTE)
        return (yield from self._since(earlier.then(self.routes.trunk)))

    def _earlier(self) -> CommitLine | None:
        """Return the line from the first commit at which a derived older end can lie."""
        trunk, earliest = self.routes.trunk, self.older.earliest
        if not earliest or earliest == trunk.first:
            return None
        past = self.clone.repository.first_parents(trunk.first)
        if earliest not in past:
            return None
        commits = past[: past.index(earliest) + 1][::-1]
        return CommitLine(name=trunk.name, commits=commits)

    def _newer_is_old(self, line: CommitLine, high: Answer) -> Finding:
        """Look on the branch of the newer release: the trunk does not end as the release does."""
        branch = self.routes.newer
        if branch is not None:
            high = yield from self._answer(branch.last)
            since = line.last if self.known(line.last) is self.before else line.first
            line = line.since(since).then(branch)
        match high:
            case Answer.UNKNOWN:
                return (yield from self._up_to_an_answer(line))
            case self.after:
                return (yield from self._bisect(line, self.before))
            case _:
                return self._ends_agree(self.before, high)

    def _up_to_an_answer(self, line: CommitLine) -> Finding:
        """Search up to a commit near the newer end, which itself cannot be judged."""
        last = yield from self._first_answering(line.backwards)
        if last is None:
            return Found(ending=CommitOutcome.MUTE)
        if self.known(last) is self.after:
            return (yield from self._bisect(line.before(last), self.before))
        left = line.since(last).commits[1:]
        span = CommitSpan(last_old=last, first_new="", candidates=left)
        return self._half(line, span, Doubt.NEWER_END)

    def _half(self, line: CommitLine, span: CommitSpan, doubt: Doubt) -> Found:
        """Return what is known where only one side could be judged."""
        edge = self.inquiry.edge
        return Found(ending=CommitOutcome.CANDIDATES, line=line, edge=edge, span=span, doubt=doubt)

    def _ends_agree(self, older: Answer, newer: Answer) -> Found:
        if newer is Answer.UNKNOWN:
            return Found(ending=CommitOutcome.MUTE)
        if newer is not older:
            return Found(ending=CommitOutcome.CONTRARY)
        if not (self.inquiry.good or self.inquiry.bad):
            # The releases differ, their sources do not.
            return Found(ending=CommitOutcome.ENVIRONMENT)
        bad = newer is Answer.YES
        return Found(ending=CommitOutcome.ALWAYS if bad else CommitOutcome.NEVER)

    def _in_one_environment(self, found: Found) -> Finding:
        """Try the newer side in the environment of the older one, where the two differ.

        Where the newer side itself declares other requirements it is the reason either way.
        """
        span = found.span
        if span is None or not (span.last_old and span.first_new):
            return found
        if self._environment(span.last_old) == self._environment(span.first_new):
            return found
        if self.clone.needs(span.last_old) != self.clone.needs(span.first_new):
            return found
        yield Ask(trial=Trial(span.first_new, within=span.last_old))
        match self.trials[-1].answer:
            case Answer.UNKNOWN:
                return dataclasses.replace(
                    found, ending=CommitOutcome.CANDIDATES, doubt=Doubt.ENVIRONMENTS
                )
            case said if said is self.known(span.first_new):
                return found
            case _:
                none = dataclasses.replace(span, candidates=())
                return dataclasses.replace(found, ending=CommitOutcome.ENVIRONMENT, span=none)

    def _environment(self, commit: str) -> str:
        """Return the environment in which a commit answered first."""
        return next(trial.environment for trial in self.trials if trial.commit == commit)

    def _twice(self, found: Found) -> Finding:
        """Run both sides once more; a side that contradicts itself decides nothing."""
        span, line = found.span, found.line
        if found.ending is not CommitOutcome.FOUND or span is None or line is None:
            return found
        unstable = []
        for commit in (span.last_old, span.first_new):
            yield Ask(trial=Trial(commit, again=True))
            answers = {commit: self.known(commit) or Answer.UNKNOWN}
            if agreed(answers, commit, self.confirmations[-1].answer) is Answer.UNKNOWN:
                unstable.append(commit)
        return self._wider(found, line, span, unstable) if unstable else found

    def _wider(
        self, found: Found, line: CommitLine, span: CommitSpan, unstable: list[str]
    ) -> Found:
        """Return what is left between the nearest commits that did not contradict themselves."""
        older, newer = found.edge.sides
        at = line.place(span.first_new)
        answers = {sha: self.known(sha) for sha in line.commits if sha not in unstable}
        olds = [sha for sha in answers if answers[sha] is older and line.place(sha) < at]
        news = [sha for sha in answers if answers[sha] is newer and line.place(sha) >= at]
        if not (olds and news):
            return Found(ending=CommitOutcome.MUTE, doubt=Doubt.CONTRADICTION)
        left = line.since(olds[-1]).before(news[0]).commits[1:]
        wide = CommitSpan(last_old=olds[-1], first_new=news[0], candidates=left)
        return dataclasses.replace(
            found, ending=CommitOutcome.CANDIDATES, span=wide, doubt=Doubt.CONTRADICTION
        )


def _silent(answers: Mapping[int, Answer], edge: Edge) -> Transition | None:
    """Return the first change, where too many between its sides could not be judged."""
    first = next((change for change in changes(answers) if change.edge is edge), None)
    if first is None or sum(place in answers for place in first.between) < _SILENCE:
        return None
    return first


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedCommit:
    """A commit that was tried, of how many questions, and how many have no answer yet."""

    trial: Trial
    asked: int
    left: int


def search(
    searches: Sequence[CommitSearch],
    try_commits: TryCommits,
    done: Callable[[CommitSearch, CommitAnswer], None] = lambda *_: None,
    tried: Callable[[SearchedCommit], None] = lambda _: None,
) -> list[CommitAnswer]:
    """Try commits until every search has its answer; return the answers in their order.

    `done` hears of every answer as soon as there is one, and `tried` of every commit. Raises
    RunnerError and Interrupted; what was tried until then is stored.
    """
    answers: dict[int, CommitAnswer] = {}
    asking: dict[int, tuple[Finding, Ask]] = {}

    def go_on(place: int, finding: Finding) -> None:
        asking.pop(place, None)
        try:
            asking[place] = (finding, next(finding))
        except StopIteration as end:
            answers[place] = searches[place].answer(end.value)
            done(searches[place], answers[place])

    for place, one in enumerate(searches):
        go_on(place, one.steps())
    while asking:
        trial = _chosen([ask for _, ask in asking.values()])
        helped = [place for place, (_, ask) in asking.items() if ask.is_helped_by(trial)]
        asked = [searches[place].inquiry.asked for place in helped]
        for place, answer in zip(helped, try_commits(trial, asked), strict=True):
            searches[place].take(answer)
        for place in helped:
            go_on(place, asking[place][0])
        tried(SearchedCommit(trial=trial, asked=len(helped), left=len(asking)))
    return [answers[place] for place in range(len(searches))]


def _chosen(asks: Sequence[Ask]) -> Trial:
    """Return the trial that helps most: one that must be made first, else the best of all lines."""
    exact = Counter(ask.trial for ask in asks if ask.open is None)
    if exact:
        return exact.most_common(1)[0][0]
    return Trial(best(ask.open for ask in asks if ask.open is not None))


def find_commits(  # noqa: PLR0913 - what is asked, where, and how it is run
    home: Home,
    clone: Clone,
    inquiries: Sequence[Inquiry],
    terms: Terms,
    hear: Callable[[Heard], None] = lambda _: None,
    *,
    rerun: bool = False,
) -> list[CommitAnswer]:
    """Return for each pair of environments the commit between them that makes the difference.

    `hear` is called with every line before it is searched, and with every trial. Raises
    RunnerError for an unsuitable clone, and Interrupted; either way the checkout is removed, and
    what was run is stored.
    """
    searches = [CommitSearch(inquiry, clone, hear) for inquiry in inquiries]
    with opened(home.paths.checkouts, clone.repository, clone.sources) as worktree:
        runs = CommitRuns(home=home, clone=clone, worktree=worktree, terms=terms, rerun=rerun)
        return search(searches, runs)


def _ends(clone: Clone, inquiry: Inquiry) -> tuple[TaggedCommit, TaggedCommit]:
    """Return the older end and the newer one; a fix is searched from bad to good."""
    good, bad = ("--good", inquiry.good), ("--bad", inquiry.bad)
    options = (good, bad) if inquiry.edge is Edge.RISE else (bad, good)
    repository, sources = clone.repository, clone.sources
    if not (inquiry.good and inquiry.bad):
        _refuse_unmoved(sources.package, inquiry)
    versions = inquiry.versions(sources.package)
    if not (inquiry.good or inquiry.bad):
        return git_lines.released_ends(repository, sources, *versions, clone.points)
    older, newer = (
        git_lines.named(repository, sources, revision, option)
        if revision
        else git_lines.released(repository, sources, version, clone.points)
        for (option, revision), version in zip(options, versions, strict=True)
    )
    return older, newer


def _refuse_unmoved(package: str, inquiry: Inquiry) -> None:
    """Refuse a boundary across which the package of the clone is the same."""
    versions = inquiry.versions(package)
    if len({*versions}) == 1 or "" in versions:
        ends = zip(versions, inquiry.names, strict=True)
        shown = join([f"{version or 'missing'} in {name}" for version, name in ends])
        what = f"not both have {package}" if "" in versions else f"both have the same {package}"
        fix = "`nox -s blame` finds the package that differs; --good and --bad name revisions."
        raise refuse(Problem(OPTION, f"{what} ({shown})", fix))


def _completed(
    answer: CommitAnswer, found: Found, routes: Routes, repository: Repository
) -> CommitAnswer:
    """Return an answer with dates and subjects of its commits, and with the twin."""
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
        last_old=repository.commit(span.last_old) if span.last_old else None,
        first_new=repository.commit(span.first_new) if span.first_new else None,
        candidates=candidates,
        twin=_twin(routes, repository, candidates[0].sha) if len(candidates) == 1 else None,
    )


def _twin(routes: Routes, repository: Repository, culprit: str) -> Twin | None:
    """Look for the same change on the other lines."""
    commit = repository.commit(culprit)
    branches = [line for line in (routes.older, routes.newer) if line]
    others = [(line.name, line.first, line.last) for line in branches]
    if routes.main:
        others.insert(0, (git_lines.short(routes.main), routes.trunk.first, routes.main))
    for name, since, until in others:
        if repository.ask("merge-base", "--is-ancestor", culprit, until) is None:
            same = git_lines.twin(repository, commit, since, until, name)
            if same is not None:
                return same
    return None
