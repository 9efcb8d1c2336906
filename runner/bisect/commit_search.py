"""Search commits between two releases with `git bisect run` in a checkout of our own."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repromatrix.runner import subprocesses
from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect.commit_trials import (
    CommitTrial,
    Plan,
    TrialSide,
    read_trials,
    written,
)
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
from repromatrix.runner.bisect.repository import (
    OPTION,
    Repository,
    Worktree,
    find_sources,
    open_repository,
    opened,
)
from repromatrix.runner.bisect.search import Answer, Edge, agreed
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.errors import ExitCode, Interrupted, Problem, refuse
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.text import join

_LONG = 7 * 24 * 3600.0
_LOOK = 0.1
_PATIENCE = 30.0
"""Seconds for a trial to end its cell when the search is interrupted."""
_FOUND, _ONLY_SKIPPED = 0, 2
TRIAL = (sys.executable, "-P", "-m", "repromatrix", "trial")


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitSpan:
    """What is left of a line: the commits after the last one like the older end.

    A side that was not judged is empty.
    """

    last_old: str
    first_new: str
    candidates: tuple[str, ...]


@dataclass(kw_only=True)
class GitBisect:
    """Tries commits in a checkout, in one process each, and calls `hear` with each trial."""

    worktree: Worktree
    plan: Plan
    hear: Callable[[Heard], None]
    command: Sequence[str] = TRIAL
    trials: list[CommitTrial] = field(default_factory=list)
    confirmations: list[CommitTrial] = field(default_factory=list)

    def ask(self, commit: str, *, within: str = "") -> CommitTrial:
        """Try one commit, in all environments or in one; raises RunnerError and Interrupted."""
        return self._asked(commit, self._write(within), self.trials)

    def confirm(self, commit: str) -> CommitTrial:
        """Try a commit once more where it answered; raises RunnerError and Interrupted."""
        plan = self._write(self.environment(commit), again=True)
        return self._asked(commit, plan, self.confirmations)

    def _asked(self, commit: str, plan: str, kept: list[CommitTrial]) -> CommitTrial:
        self.worktree.check_out(commit)
        before = len(kept)
        done = self._watched([*self.command, plan, Answer.YES], kept)
        if len(kept) == before:
            raise _lost(done)
        return kept[-1]

    def bisect(self, line: CommitLine, older: Answer) -> CommitSpan:
        """Search a line whose ends were asked; raises RunnerError and Interrupted."""
        newer = opposite(older)
        if len(line.commits) == 2:  # noqa: PLR2004 - between neighbours there is nothing to ask
            return CommitSpan(last_old=line.first, first_new=line.last, candidates=(line.last,))
        self.hear(line)
        old, new = ("working", "broken") if newer is Answer.YES else ("broken", "fixed")
        terms = (f"--term-old={old}", f"--term-new={new}")
        # A line may join its first commit by a merge; what lies behind is of no interest.
        behind = self.parent(line.commits[1]) or line.first
        ends = (line.last, line.first, behind)
        self.worktree.must("bisect", "start", "--first-parent", *terms, *ends)
        run = ["bisect", "run", *self.command, self._write(), newer]
        done = self._watched(["git", "-C", str(self.worktree.tree), *run], self.trials)
        if done.code not in {_FOUND, _ONLY_SKIPPED}:
            raise _lost(done)
        span = self._span(line, old, new)
        if not self._agrees(span, older):
            raise _lost(done)
        return span

    def answer(self, commit: str) -> Answer | None:
        """Return the first answer of a commit, or None where it was not tried.

        A second trial is about the other environment alone.
        """
        return next((trial.answer for trial in self.trials if trial.commit == commit), None)

    def environment(self, commit: str) -> str:
        """Return the environment in which a commit answered first."""
        return next(trial.environment for trial in self.trials if trial.commit == commit)

    def parent(self, commit: str) -> str:
        """Return the first parent of a commit; empty where it has none."""
        done = self.worktree.git("rev-parse", "--verify", "--quiet", f"{commit}^1")
        return done.out.strip() if done.code == 0 else ""

    def _write(self, within: str = "", *, again: bool = False) -> str:
        sides = tuple(side for side in self.plan.sides if within in {"", side.environment.name})
        plan = dataclasses.replace(self.plan, sides=sides, again=again)
        path = self.worktree.folder / "plan.json"
        path.write_text(written(plan))
        return str(path)

    def _span(self, line: CommitLine, old: str, new: str) -> CommitSpan:
        """Return the result of git; all commits between its two ends were skipped."""
        refs = self.worktree.must(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/bisect"
        )
        marks = [line.split(" refs/bisect/", 1) for line in refs.splitlines()]
        first = min(line.place(commit) for commit, name in marks if name == new)
        olds = [commit for commit, name in marks if name.startswith(f"{old}-")]
        lasts = [line.place(commit) for commit in olds if commit in line.commits]
        last = max(place for place in lasts if place < first)
        return CommitSpan(
            last_old=line.commits[last],
            first_new=line.commits[first],
            candidates=line.commits[last + 1 : first + 1],
        )

    def _agrees(self, span: CommitSpan, older: Answer) -> bool:
        """Say whether git and the trials came to the same.

        git takes every exit code from 1 to 127, except 125, for an answer: a program that cannot
        start would blame a commit.
        """
        skipped = span.candidates[:-1]
        return (
            self.answer(span.last_old) is older
            and self.answer(span.first_new) is opposite(older)
            and all(self.answer(commit) is Answer.UNKNOWN for commit in skipped)
        )

    def _watched(self, command: Sequence[str], kept: list[CommitTrial]) -> subprocesses.Finished:
        """Run a command and report its trials as they come; interrupted, it ends its cell first."""
        ran: list[subprocesses.Finished] = []
        # An event, because a thread whose join() is interrupted no longer counts as running.
        over = threading.Event()

        def finish() -> None:
            environ = {**self.worktree.environ, "PYTHONPATH": str(ROOT)}
            tree = self.worktree.tree
            try:
                done = subprocesses.finish(command, environ=environ, folder=tree, seconds=_LONG)
                ran.append(done)
            finally:
                over.set()

        threading.Thread(target=finish).start()
        try:
            while not over.wait(_LOOK):
                self._hear(kept)
        except Interrupted:
            self.worktree.let_go()
            if not over.wait(_PATIENCE):
                subprocesses.end_all()
                over.wait()
            raise
        self._hear(kept)
        return ran[0]

    def _hear(self, kept: list[CommitTrial]) -> None:
        journal = self.worktree.folder / "journal"
        if journal.exists():
            count = len(self.trials) + len(self.confirmations)
            for new in read_trials(journal.read_text())[count:]:
                trial = dataclasses.replace(new, again=kept is self.confirmations)
                kept.append(trial)
                self.hear(trial)


def opposite(answer: Answer) -> Answer:
    """Return the other of the two kinds."""
    return Answer.NO if answer is Answer.YES else Answer.YES


def _lost(done: subprocesses.Finished) -> Exception:
    last = subprocesses.anonymous(" | ".join(done.err.strip().splitlines()[-4:]))
    what = f"gave no answer (exit code {done.code}: {last or done.out.strip()[-300:]})"
    return refuse(Problem("the trial of a commit", what, "Report this."), ExitCode.OUR_FAULT)


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


class Route:
    """Decides, by the answers of the ends, which line is searched."""

    def __init__(
        self, bisector: GitBisect, routes: Routes, edge: Edge, repository: Repository
    ) -> None:
        """Try no commit before `find`."""
        self.bisector = bisector
        self.routes = routes
        self.edge = edge
        self.repository = repository
        self.before, self.after = edge.sides

    def find(self) -> Found:
        """Search a line and check the result; raises RunnerError and Interrupted."""
        return self._twice(self._in_one_environment(self._found()))

    def _found(self) -> Found:
        """Ask the ends of the trunk, then search it, or the branch that makes the difference."""
        trunk = self.routes.trunk
        low = self._first_answering(trunk)
        if low is None:
            return Found(ending=CommitOutcome.MUTE)
        if self._answer(low) is self.after:
            return self._older_is_new(low)
        line = trunk.since(low)
        high = self._answer(line.last)
        if high is self.after:
            return self._bisect(line, self.before)
        return self._newer_is_old(line, high)

    def _answer(self, commit: str) -> Answer:
        return self.bisector.answer(commit) or self.bisector.ask(commit).answer

    def _first_answering(self, line: CommitLine) -> str | None:
        """Return the first commit of a line that can be judged, or one near it."""
        near = [line.commits[step] for step in _INWARD if step < len(line.commits)]
        return next((sha for sha in near if self._answer(sha) is not Answer.UNKNOWN), None)

    def _bisect(self, line: CommitLine, older: Answer) -> Found:
        """Search a line; a commit that it joins by a merge is no parent of the one that follows."""
        found = self._searched(line, older)
        assert found.span is not None  # noqa: S101 - a line that was searched leaves one
        parent = self.bisector.parent(found.span.candidates[0])
        if parent == found.span.last_old:
            return found
        if parent and self._answer(parent) is older:
            return dataclasses.replace(found, span=dataclasses.replace(found.span, last_old=parent))
        joined = git_lines.holding(self.repository, line.since(found.span.last_old))
        if found.span.candidates[0] not in joined.commits:
            return self._bisect(joined, older)
        return dataclasses.replace(found, ending=CommitOutcome.CANDIDATES, doubt=Doubt.PARENT)

    def _searched(self, line: CommitLine, older: Answer) -> Found:
        span = self.bisector.bisect(line, older)
        edge = Edge.RISE if older is Answer.NO else Edge.FALL
        ending = CommitOutcome.FOUND if len(span.candidates) == 1 else CommitOutcome.CANDIDATES
        return Found(ending=ending, line=line, edge=edge, span=span)

    def _older_is_new(self, low: str) -> Found:
        """Find out why the older end of the trunk already answers as the newer end should."""
        trunk, branch = self.routes.trunk, self.routes.older
        older = self.bisector.plan.sides[-1].environment.name
        if self.bisector.ask(low, within=older).answer is self.before:
            return Found(ending=CommitOutcome.ENVIRONMENT)
        if low != trunk.first:
            left = trunk.before(low).commits[1:]
            span = CommitSpan(last_old="", first_new=low, candidates=left)
            return self._half(trunk, span, Doubt.OLDER_END)
        if branch is not None and self._answer(branch.last) is self.before:
            return self._bisect(branch, self.after)
        newest = self.routes.newer or trunk
        return self._ends_agree(self.after, self._answer(newest.last))

    def _newer_is_old(self, line: CommitLine, high: Answer) -> Found:
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

    def _up_to_an_answer(self, line: CommitLine) -> Found:
        """Search up to a commit near the newer end, which itself cannot be judged."""
        last = self._first_answering(line.backwards)
        if last is None:
            return Found(ending=CommitOutcome.MUTE)
        if self._answer(last) is self.after:
            return self._bisect(line.before(last), self.before)
        left = line.since(last).commits[1:]
        span = CommitSpan(last_old=last, first_new="", candidates=left)
        return self._half(line, span, Doubt.NEWER_END)

    def _half(self, line: CommitLine, span: CommitSpan, doubt: Doubt) -> Found:
        """Return what is known where only one side could be judged."""
        return Found(
            ending=CommitOutcome.CANDIDATES, line=line, edge=self.edge, span=span, doubt=doubt
        )

    def _ends_agree(self, older: Answer, newer: Answer) -> Found:
        if newer is Answer.UNKNOWN:
            return Found(ending=CommitOutcome.MUTE)
        if newer is not older:
            return Found(ending=CommitOutcome.CONTRARY)
        bad = newer is Answer.YES
        return Found(ending=CommitOutcome.ALWAYS if bad else CommitOutcome.NEVER)

    def _in_one_environment(self, found: Found) -> Found:
        """Try the newer side in the environment of the older one, where the two differ."""
        span = found.span
        if span is None or not (span.last_old and span.first_new):
            return found
        older = self.bisector.environment(span.last_old)
        if older == self.bisector.environment(span.first_new):
            return found
        match self.bisector.ask(span.first_new, within=older).answer:
            case Answer.UNKNOWN:
                return dataclasses.replace(
                    found, ending=CommitOutcome.CANDIDATES, doubt=Doubt.ENVIRONMENTS
                )
            case said if said is self.bisector.answer(span.first_new):
                return found
            case _:
                none = dataclasses.replace(span, candidates=())
                return dataclasses.replace(found, ending=CommitOutcome.ENVIRONMENT, span=none)

    def _twice(self, found: Found) -> Found:
        """Run both sides once more; a side that contradicts itself decides nothing."""
        span, line = found.span, found.line
        if found.ending is not CommitOutcome.FOUND or span is None or line is None:
            return found
        unstable = []
        for commit in (span.last_old, span.first_new):
            answers = {commit: self._answer(commit)}
            if agreed(answers, commit, self.bisector.confirm(commit).answer) is Answer.UNKNOWN:
                unstable.append(commit)
        return self._wider(found, line, span, unstable) if unstable else found

    def _wider(
        self, found: Found, line: CommitLine, span: CommitSpan, unstable: list[str]
    ) -> Found:
        """Return what is left between the nearest commits that did not contradict themselves."""
        older, newer = found.edge.sides
        at = line.place(span.first_new)
        answers = {sha: self.bisector.answer(sha) for sha in line.commits if sha not in unstable}
        olds = [sha for sha in answers if answers[sha] is older and line.place(sha) < at]
        news = [sha for sha in answers if answers[sha] is newer and line.place(sha) >= at]
        if not (olds and news):
            return Found(ending=CommitOutcome.MUTE, doubt=Doubt.CONTRADICTION)
        left = line.since(olds[-1]).before(news[0]).commits[1:]
        wide = CommitSpan(last_old=olds[-1], first_new=news[0], candidates=left)
        return dataclasses.replace(
            found, ending=CommitOutcome.CANDIDATES, span=wide, doubt=Doubt.CONTRADICTION
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiry:
    """A boundary of two environments, both built, and what is asked of the commits between them.

    `good` and `bad` are revisions that take the place of the releases' tags.
    """

    asked: CaseQuestion
    edge: Edge
    older: TrialSide
    newer: TrialSide
    limits: Limits
    run: str
    good: str = ""
    bad: str = ""
    rerun: bool = False
    sandbox: bool = False


def search(
    paths: Paths,
    inquiry: Inquiry,
    repo: Path,
    hear: Callable[[Heard], None] = lambda _: None,
    command: Sequence[str] = TRIAL,
) -> CommitAnswer:
    """Return the commit between two environments that broke a case, or fixed it.

    `hear` is called with every line before it is searched, and with every trial. Raises
    RunnerError for an unsuitable repository, and Interrupted; either way the checkouts are
    removed, and what was run is stored.
    """
    repository = open_repository(repo)
    sources = find_sources(repository, repository.tip())
    older, newer = _ends(repository, sources, inquiry)
    routes = git_lines.between(repository, older, newer)
    plan = Plan(
        paths=paths,
        asked=inquiry.asked,
        sides=(inquiry.newer, inquiry.older),
        sources=sources,
        limits=inquiry.limits,
        run=inquiry.run,
        rerun=inquiry.rerun,
        sandbox=inquiry.sandbox,
    )
    with opened(paths.checkouts, repository, sources) as worktree:
        bisector = GitBisect(worktree=worktree, plan=plan, hear=hear, command=command)
        found = Route(bisector, routes, inquiry.edge, repository).find()
    answer = CommitAnswer(
        ending=found.ending,
        question=inquiry.asked,
        edge=inquiry.edge,
        package=sources.package,
        older=End(mark=older, environment=inquiry.older.environment.name),
        newer=End(mark=newer, environment=inquiry.newer.environment.name),
        doubt=found.doubt,
        trials=tuple(bisector.trials),
        confirmations=tuple(bisector.confirmations),
        is_dirty=repository.is_dirty(),
    )
    return _completed(answer, found, routes, repository)


def _ends(
    repository: Repository, sources: PackageSources, inquiry: Inquiry
) -> tuple[TaggedCommit, TaggedCommit]:
    """Return the older end and the newer one; a fix is searched from bad to good."""
    good, bad = ("--good", inquiry.good), ("--bad", inquiry.bad)
    options = (good, bad) if inquiry.edge is Edge.RISE else (bad, good)
    sides = (inquiry.older, inquiry.newer)
    if not (inquiry.good and inquiry.bad):
        _refuse_unmoved(sources.package, inquiry)
    older, newer = (
        git_lines.named(repository, sources, revision, option)
        if revision
        else git_lines.released(repository, sources, side.environment.version(sources.package))
        for (option, revision), side in zip(options, sides, strict=True)
    )
    return older, newer


def _refuse_unmoved(package: str, inquiry: Inquiry) -> None:
    """Refuse a boundary across which the package of the clone is the same."""
    ends = (inquiry.older.environment, inquiry.newer.environment)
    versions = {end.version(package) for end in ends}
    if len(versions) == 1 or "" in versions:
        shown = join([f"{end.version(package) or 'missing'} in {end.name}" for end in ends])
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
