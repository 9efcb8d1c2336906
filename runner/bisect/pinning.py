"""Pin changes along releases to commits: all of them at once, in the clones that there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.commit_search import CommitSearch, Inquiry, Tried, search
from repromatrix.runner.bisect.commit_trials import CommitRuns, CommitTrial
from repromatrix.runner.bisect.commits import CommitAnswer, CommitOutcome, sentence
from repromatrix.runner.bisect.releases import Finding
from repromatrix.runner.bisect.repository import Commit, opened
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.packages import MOVED, TRANSFORMERS


def changes_of(
    findings: Iterable[Finding], environments: Mapping[str, Environment]
) -> Iterator[Inquiry]:
    """Yield every break and fix that the answers of releases show, oldest first."""
    for finding in findings:
        names = finding.search.names
        for change in finding.changes:
            older = environments[names[change.before]]
            asked = finding.search.question
            if older.source in {Source.PAIR, Source.STACK}:
                asked = dataclasses.replace(asked, beside=older.name)
            yield Inquiry(
                asked=asked,
                edge=change.edge,
                older=older,
                newer=environments[names[change.at]],
            )


def key_of(inquiry: Inquiry) -> ChangeKey:
    """Return the change that an inquiry is about."""
    asked = inquiry.asked
    return ChangeKey(
        case=asked.case.name,
        workaround=asked.workaround,
        precision=asked.precision,
        device=asked.device,
        change=inquiry.edge.word,
        before=inquiry.names[0],
        at=inquiry.names[1],
    )


@dataclass(kw_only=True)
class Pinning:
    """Searches many changes in several clones; `keep` hears of each as soon as it is pinned.

    A change is searched in the clone of the package that its case is about, then, where the sources
    of that one do not decide, in those of the others that differ across it.
    """

    home: Home
    clones: Sequence[Clone]
    terms: Terms
    keep: Callable[[PinnedCommit], None]
    tried: Tried = lambda *_: None
    rerun: bool = False
    said: set[ChangeKey] = field(default_factory=set)

    def pin(self, inquiries: Iterable[Inquiry]) -> None:
        """Search all changes; raises RunnerError and Interrupted, what was found is kept."""
        waiting = []
        for inquiry in inquiries:
            # The likeliest clone first.
            named, moved = _named(inquiry), _moved(inquiry)
            clones = [clone for clone in self.clones if clone.sources.package in moved]
            order = sorted(clones, key=lambda clone: clone.sources.package not in named)
            waiting.append((inquiry, order))
            if not clones:
                why = f"no clone of {' or '.join(moved)} was given" if moved else "nothing differs"
                self.keep(PinnedCommit(*key_of(inquiry), package="", reason=why))
        while waiting := [(inquiry, clones) for inquiry, clones in waiting if clones]:
            first = {clones[0].sources.package for _, clones in waiting}
            clone = next(one for one in self.clones if one.sources.package in first)
            batch = [inquiry for inquiry, clones in waiting if clones[0] is clone]
            decided = self._search(clone, batch)
            waiting = [
                (inquiry, clones[1:] if clones[0] is clone else clones)
                for inquiry, clones in waiting
                if key_of(inquiry) not in decided
            ]

    def _say(self, row: PinnedCommit) -> None:
        """Keep a row; why the likeliest clone does not decide stands until another one does."""
        if row.commit or row.key not in self.said:
            self.said.add(row.key)
            self.keep(row)

    def _search(self, clone: Clone, inquiries: Sequence[Inquiry]) -> set[ChangeKey]:
        """Search changes in one clone; return those that need no other clone."""
        decided = set()
        searches = []
        for inquiry in inquiries:
            try:
                searches.append(CommitSearch(inquiry, clone))
            except RunnerError as error:
                package, what = clone.sources.package, error.faults[0].what
                self._say(PinnedCommit(*key_of(inquiry), package=package, reason=what))
                if not _named(inquiry) - {package}:
                    # Its clone does not reach so far; no other is expected to decide.
                    decided.add(key_of(inquiry))

        def done(searched: CommitSearch, answer: CommitAnswer) -> None:
            key = key_of(searched.inquiry)
            self._say(pinned(key, answer, clone))
            if answer.ending is not CommitOutcome.ENVIRONMENT:
                decided.add(key)

        with opened(self.home.paths.checkouts, clone.repository, clone.sources) as worktree:
            runs = CommitRuns(
                home=self.home,
                clone=clone,
                worktree=worktree,
                terms=self.terms,
                rerun=self.rerun,
            )
            search(searches, runs, done, self.tried)
        return decided


def _named(inquiry: Inquiry) -> set[str]:
    """Return the packages under test that a case is about, where it is not transformers alone."""
    needed = {each.name for each in inquiry.asked.case.head.dependencies}
    return needed & {*MOVED} - {TRANSFORMERS}


def _moved(inquiry: Inquiry) -> list[str]:
    return [package for package in MOVED if len({*inquiry.versions(package)}) > 1]


def pinned(key: ChangeKey, answer: CommitAnswer, clone: Clone) -> PinnedCommit:
    """Return what is kept of an answer.

    Of a fork only commits that name an upstream pull request count: the others may be its own.
    """
    culprit, parent = answer.culprit, answer.last_old
    nothing = PinnedCommit(*key, package=answer.package)
    if culprit is None or parent is None:
        return nothing._replace(reason=sentence(answer))
    if clone.is_fork and culprit.pull_request is None:
        why = f"{culprit.short} names no upstream pull request, and the clone is a fork"
        return nothing._replace(reason=why)
    old, new = _trial(answer, parent), _trial(answer, culprit)
    return nothing._replace(
        commit=culprit.sha,
        parent=parent.sha,
        date=culprit.date[:10],
        title=culprit.subject,
        pull_request=str(culprit.pull_request or ""),
        outcome_before=old.reason,
        outcome_at=new.reason,
        unjudged=str(len(answer.unjudged)),
        environment_before=f"{old.environment} {old.digest}",
        environment_at=f"{new.environment} {new.digest}",
    )


def _trial(answer: CommitAnswer, commit: Commit) -> CommitTrial:
    return next(trial for trial in answer.trials if trial.commit == commit.sha)
