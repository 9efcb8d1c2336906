"""Search commits: many questions at once, each commit that is checked out serving all of them.

A line of commits is a list of points like the releases are. Each search says which commit it needs
next; the one from which all of them learn most is tried.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.commit_trials import CommitRuns, CommitTrial, Trial
from repromatrix.runner.bisect.commits import CommitAnswer, CommitOutcome, Doubt, Heard
from repromatrix.runner.bisect.git_lines import CommitLine, End
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import OPTION, opened
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
Tried = Callable[[str, int, int], None]
"""Hears of a commit that was tried: of how many questions, and how many have no answer yet."""
Wanted = Trial | Open[str]
"""What a search needs next: one trial, or any commit of a line that helps to halve it."""

_SILENCE = 16
"""Commits between two answers that could not be judged, after which no more are tried."""


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

    def ends(self, clone: Clone) -> tuple[End, End]:
        """Return the older end and the newer one; raises RunnerError.

        A fix is searched from bad to good.
        """
        package, versions = clone.sources.package, self.versions(clone.sources.package)
        options = [("--good", self.good), ("--bad", self.bad)]
        revisions = options if self.edge is Edge.RISE else options[::-1]
        if not (self.good and self.bad) and (len({*versions}) == 1 or "" in versions):
            sides = zip(versions, self.names, strict=True)
            shown = join([f"{version or 'missing'} in {name}" for version, name in sides])
            what = f"not both have {package}" if "" in versions else f"both have the same {package}"
            fix = "`nox -s blame` finds the package that differs; --good and --bad name revisions."
            raise refuse(Problem(OPTION, f"{what} ({shown})", fix))
        if not (self.good or self.bad):
            older, newer = clone.ends(*versions)
        else:
            older, newer = (
                clone.named(revision, option) if revision else clone.released(version)
                for (option, revision), version in zip(revisions, versions, strict=True)
            )
        return older, newer


class _NeededError(Exception):
    """A search cannot go on without a trial."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        super().__init__()


class CommitSearch:
    """One question about the commits between two ends; its state is what was tried."""

    def __init__(
        self, inquiry: Inquiry, clone: Clone, hear: Callable[[Heard], None] = lambda _: None
    ) -> None:
        """Try nothing yet; raises RunnerError where there is no way between the ends."""
        self.inquiry = inquiry
        self.clone = clone
        self.hear = hear
        older, newer = inquiry.ends(clone)
        self.routes = clone.routes(older, newer)
        self.ends = tuple(
            dataclasses.replace(end, environment=name)
            for end, name in zip((older, newer), inquiry.names, strict=True)
        )
        self.before, self.after = inquiry.edge.sides
        self.trials: list[CommitTrial] = []
        self.confirmations: list[CommitTrial] = []
        self.halved: set[CommitLine] = set()

    def take(self, trial: CommitTrial) -> None:
        """Hear what a commit answered."""
        (self.confirmations if trial.again else self.trials).append(trial)
        self.hear(trial)

    def step(self) -> Wanted | CommitAnswer:
        """Return what is to be tried next, or the answer where nothing is."""
        try:
            answer = self._twice(self._in_one_environment(self._placed()))
        except _NeededError as needed:
            return needed.wanted
        return dataclasses.replace(
            answer,
            trials=tuple(self.trials),
            confirmations=tuple(self.confirmations),
            is_dirty=self.clone.is_dirty,
        )

    def _known(self, commit: str) -> Answer | None:
        """Return the first answer of a commit; a second trial is about another environment."""
        return next((trial.answer for trial in self.trials if trial.commit == commit), None)

    def _answer(self, commit: str) -> Answer:
        known = self._known(commit)
        if known is None:
            raise _NeededError(Trial(commit))
        return known

    def _judged(self, line: CommitLine) -> list[str]:
        answers = {trial.commit for trial in self.trials if trial.answer is not Answer.UNKNOWN}
        return [commit for commit in line.commits if commit in answers]

    def _placed(self) -> CommitAnswer:
        """Search the trunk; where it does not change, the branch that makes the difference."""
        trunk, edge = self.routes.trunk, self.inquiry.edge
        if answer := self._searched(trunk, edge):
            return answer
        judged = self._judged(trunk)
        if not judged:
            return self._ended(CommitOutcome.MUTE)
        if self._known(judged[0]) is self.after:
            return self._older_is_new(judged[0])
        return self._newer_is_old(trunk.since(judged[-1]))

    def _older_is_new(self, low: str) -> CommitAnswer:
        """Find out why the older end of the trunk already answers as the newer end should."""
        trunk, branch = self.routes.trunk, self.routes.older
        if low != trunk.first:
            return self._between(trunk, ("", low), Doubt.OLDER_END)
        if branch and (answer := self._searched(branch, self.inquiry.edge.other)):
            return answer
        newest = self._answer((self.routes.newer or trunk).last)
        if newest is Answer.UNKNOWN:
            return self._ended(CommitOutcome.MUTE)
        return self._alike(newest) if newest is self.after else self._ended(CommitOutcome.CONTRARY)

    def _newer_is_old(self, line: CommitLine) -> CommitAnswer:
        """Look on the branch of the newer release: the trunk does not end as the release does."""
        if self.routes.newer:
            line = line.then(self.routes.newer)
            if answer := self._searched(line, self.inquiry.edge):
                return answer
        last = self._judged(line)[-1]
        if last != line.last:
            return self._between(line, (last, ""), Doubt.NEWER_END)
        return self._alike(self.before)

    def _alike(self, both: Answer) -> CommitAnswer:
        """Return what it means that both ends answer alike."""
        if not (self.inquiry.good or self.inquiry.bad):
            # The releases differ, their sources do not.
            return self._ended(CommitOutcome.ENVIRONMENT)
        return self._ended(CommitOutcome.ALWAYS if both is Answer.YES else CommitOutcome.NEVER)

    def _searched(self, line: CommitLine, edge: Edge) -> CommitAnswer | None:
        """Return the commits between the two sides of a line; None where it does not change.

        A commit that the line joins by a merge is no parent of the one that follows.
        """
        answers = {
            place: known
            for place, commit in enumerate(line.commits)
            if (known := self._known(commit)) is not None
        }
        step = look(len(line.commits), answers, Sought(edge=edge))
        silent = _silent(answers, edge) if isinstance(step, SearchQuestion) else None
        if isinstance(step, SearchQuestion) and silent is None:
            if not step.alone and line not in self.halved:
                self.halved.add(line)
                self.hear(line)
            raise _NeededError(Open(line.commits, answers, step))
        change = silent or (None if isinstance(step, SearchQuestion) else step.found)
        if change is None:
            return None
        old, new = line.commits[change.before], line.commits[change.at]
        if silent:
            return self._between(line, (old, new), Doubt.SILENCE, edge)
        first = line.commits[change.before + 1]
        parent = self.clone.repository.parent(first)
        if parent == old or (parent and self._answer(parent) is edge.sides[0]):
            return self._between(line, (old, new), Doubt.NONE, edge, parent)
        joined = git_lines.holding(self.clone.repository, line.since(old))
        if first not in joined.commits:
            return self._searched(joined, edge)
        return self._between(line, (old, new), Doubt.PARENT, edge)

    def _between(
        self,
        line: CommitLine,
        sides: tuple[str, str],
        doubt: Doubt,
        edge: Edge | None = None,
        parent: str = "",
    ) -> CommitAnswer:
        """Return the commits between two of a line; a side that was not judged is empty.

        `parent` is where the first of them comes from, if not from the older side.
        """
        old, new = sides
        left = line.since(old or line.first).before(new or line.last).commits[1:]
        is_found = len(left) == 1 and doubt is Doubt.NONE
        repository = self.clone.repository
        return dataclasses.replace(
            self._ended(CommitOutcome.FOUND if is_found else CommitOutcome.CANDIDATES),
            searched=line,
            is_reversed=edge is self.inquiry.edge.other,
            last_old=repository.commit(parent or old) if old else None,
            first_new=repository.commit(new) if new else None,
            candidates=repository.described(*left),
            doubt=doubt,
        )

    def _ended(self, ending: CommitOutcome) -> CommitAnswer:
        older, newer = self.ends
        return CommitAnswer(
            ending=ending,
            question=self.inquiry.asked,
            edge=self.inquiry.edge,
            package=self.clone.sources.package,
            older=older,
            newer=newer,
        )

    def _in_one_environment(self, answer: CommitAnswer) -> CommitAnswer:
        """Try the newer side in the environment of the older one, where the two differ.

        Where the newer side itself declares other requirements it is the reason either way.
        """
        if answer.last_old is None or answer.first_new is None:
            return answer
        old, new = answer.last_old.sha, answer.first_new.sha
        of_old, of_new = ([t for t in self.trials if t.commit == sha] for sha in (old, new))
        if of_old[0].environment == of_new[0].environment:
            return answer
        if self.clone.needs(old) != self.clone.needs(new):
            return answer
        if len(of_new) == 1:
            raise _NeededError(Trial(new, within=old))
        match of_new[1].answer:
            case Answer.UNKNOWN:
                ending = CommitOutcome.CANDIDATES
                return dataclasses.replace(answer, ending=ending, doubt=Doubt.ENVIRONMENTS)
            case said if said is of_new[0].answer:
                return answer
            case _:
                ending = CommitOutcome.ENVIRONMENT
                return dataclasses.replace(answer, ending=ending, candidates=())

    def _twice(self, answer: CommitAnswer) -> CommitAnswer:
        """Run both sides once more; a side that contradicts itself decides nothing.

        What is left then lies between the nearest commits that did not contradict themselves.
        """
        line, old, new = answer.searched, answer.last_old, answer.first_new
        if answer.ending is not CommitOutcome.FOUND or not (line and old and new):
            return answer
        again = {trial.commit: trial.answer for trial in self.confirmations}
        for commit in (old.sha, new.sha):
            if commit not in again:
                raise _NeededError(Trial(commit, again=True))
        firsts = {sha: known for sha in again if (known := self._known(sha)) is not None}
        unstable = {sha for sha in again if agreed(firsts, sha, again[sha]) is Answer.UNKNOWN}
        if not unstable:
            return answer
        older, newer = answer.searched_edge.sides
        at = line.place(new.sha)
        stable = [sha for sha in line.commits if sha not in unstable]
        olds = [sha for sha in stable if self._known(sha) is older and line.place(sha) < at]
        news = [sha for sha in stable if self._known(sha) is newer and line.place(sha) >= at]
        if not (olds and news):
            mute = self._ended(CommitOutcome.MUTE)
            return dataclasses.replace(mute, doubt=Doubt.CONTRADICTION)
        sides = (olds[-1], news[0])
        return self._between(line, sides, Doubt.CONTRADICTION, answer.searched_edge)


def _silent(answers: Mapping[int, Answer], edge: Edge) -> Transition | None:
    """Return the first change, where too many between its sides could not be judged."""
    first = next((change for change in changes(answers) if change.edge is edge), None)
    if first is None or sum(place in answers for place in first.between) < _SILENCE:
        return None
    return first


def search(
    searches: Sequence[CommitSearch],
    try_commits: TryCommits,
    done: Callable[[CommitSearch, CommitAnswer], None] = lambda *_: None,
    tried: Tried = lambda *_: None,
) -> list[CommitAnswer]:
    """Try commits until every search has its answer; return the answers in their order.

    `done` hears of every answer as soon as there is one. Raises RunnerError and Interrupted; what
    was tried until then is stored.
    """
    answers: dict[int, CommitAnswer] = {}
    asking: dict[int, Wanted] = {}

    def go_on(places: Collection[int]) -> None:
        for place in places:
            asking.pop(place, None)
            step = searches[place].step()
            if isinstance(step, CommitAnswer):
                answers[place] = step
                done(searches[place], step)
            else:
                asking[place] = step

    go_on(range(len(searches)))
    while asking:
        trial = _chosen([*asking.values()])
        helped = [place for place, wanted in asking.items() if _helps(trial, wanted)]
        questions = [searches[place].inquiry.asked for place in helped]
        for place, answer in zip(helped, try_commits(trial, questions), strict=True):
            searches[place].take(answer)
        go_on(helped)
        tried(trial.commit, len(helped), len(asking))
    return [answers[place] for place in range(len(searches))]


def _chosen(wanted: Sequence[Wanted]) -> Trial:
    """Return the trial that helps most: one that must be made first, else the best of all lines."""
    exact = Counter(each for each in wanted if isinstance(each, Trial))
    if exact:
        return exact.most_common(1)[0][0]
    return Trial(best(each for each in wanted if isinstance(each, Open)))


def _helps(trial: Trial, wanted: Wanted) -> bool:
    if isinstance(wanted, Trial):
        return wanted == trial
    return not (trial.within or trial.again) and served(wanted, trial.commit)


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

    `hear` is called with every line before it is halved, and with every trial. Raises RunnerError
    for an unsuitable clone, and Interrupted; either way the checkout is removed, and what was run
    is stored.
    """
    searches = [CommitSearch(inquiry, clone, hear) for inquiry in inquiries]
    with opened(home.paths.checkouts, clone.repository, clone.sources) as worktree:
        runs = CommitRuns(home=home, clone=clone, worktree=worktree, terms=terms, rerun=rerun)
        return search(searches, runs)
