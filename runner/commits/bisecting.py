"""`git bisect run` in a checkout of our own, and single questions beside it."""

from __future__ import annotations

import dataclasses
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner import processes
from runner.attempt.plan import Trial, read_trials, written
from runner.errors import ExitCode, Fault, Interrupted, refuse
from runner.history.lines import Line
from runner.places import ROOT
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.attempt.plan import Plan
    from runner.history.worktree import Worktree

_LONG = 7 * 24 * 3600.0
_LOOK = 0.1
_PATIENCE = 30.0
"""Seconds for a trial to end its cell when the search is interrupted."""
_FOUND, _ONLY_SKIPPED = 0, 2
TRIAL = (sys.executable, "-P", "-m", "runner", "trial")


Heard = Trial | Line
"""What happens meanwhile: a line begins to be searched, a commit answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """What is left of a line: the commits after the last of the older kind, up to the newer.

    A side that was not judged is empty.
    """

    last_old: str
    first_new: str
    candidates: tuple[str, ...]


@dataclass(kw_only=True)
class Bisector:
    """Asks commits in a checkout, one process for each; hears of each as it answers."""

    worktree: Worktree
    plan: Plan
    hear: Callable[[Heard], None]
    command: Sequence[str] = TRIAL
    trials: list[Trial] = field(default_factory=list)
    confirmations: list[Trial] = field(default_factory=list)

    def ask(self, commit: str, *, within: str = "") -> Trial:
        """Try one commit, in all environments or in one; raises RunnerError and Interrupted."""
        return self._asked(commit, self._write(within), self.trials)

    def confirm(self, commit: str) -> Trial:
        """Try a commit once more where it answered; raises RunnerError and Interrupted."""
        plan = self._write(self.environment(commit), again=True)
        return self._asked(commit, plan, self.confirmations)

    def _asked(self, commit: str, plan: str, kept: list[Trial]) -> Trial:
        self.worktree.check_out(commit)
        before = len(kept)
        done = self._watched([*self.command, plan, Answer.YES], kept)
        if len(kept) == before:
            raise _lost(done)
        return kept[-1]

    def bisect(self, line: Line, older: Answer) -> Span:
        """Search a line whose ends were asked; raises RunnerError and Interrupted."""
        newer = opposite(older)
        if len(line.commits) == 2:  # noqa: PLR2004 - between neighbours there is nothing to ask
            return Span(last_old=line.first, first_new=line.last, candidates=(line.last,))
        self.hear(line)
        old, new = ("working", "broken") if newer is Answer.YES else ("broken", "healed")
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
        """Return what a commit answered, or None where it was not asked.

        The first word counts: a second question is about the other environment alone.
        """
        return next((one.answer for one in self.trials if one.commit == commit), None)

    def environment(self, commit: str) -> str:
        """Return in whose environment a commit answered that was asked."""
        return next(one.environment for one in self.trials if one.commit == commit)

    def parent(self, commit: str) -> str:
        """Return the first parent of a commit; empty where it has none."""
        done = self.worktree.git("rev-parse", "--verify", "--quiet", f"{commit}^1")
        return done.out.strip() if done.code == 0 else ""

    def _write(self, within: str = "", *, again: bool = False) -> str:
        every = self.plan.sides
        sides = tuple(one for one in every if not within or one.environment.name == within)
        plan = dataclasses.replace(self.plan, sides=sides, again=again)
        path = self.worktree.folder / "plan.json"
        path.write_text(written(plan))
        return str(path)

    def _span(self, line: Line, old: str, new: str) -> Span:
        """Return what git came to; commits between its two ends were all passed over."""
        refs = self.worktree.must(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/bisect"
        )
        marks = [one.split(" refs/bisect/", 1) for one in refs.splitlines()]
        first = min(line.place(commit) for commit, name in marks if name == new)
        olds = [commit for commit, name in marks if name.startswith(f"{old}-")]
        lasts = [line.place(commit) for commit in olds if commit in line.commits]
        last = max(place for place in lasts if place < first)
        return Span(
            last_old=line.commits[last],
            first_new=line.commits[first],
            candidates=line.commits[last + 1 : first + 1],
        )

    def _agrees(self, span: Span, older: Answer) -> bool:
        """Say whether git was told what the trials answered: no exit code was taken for another."""
        passed_over = span.candidates[:-1]
        return (
            self.answer(span.last_old) is older
            and self.answer(span.first_new) is opposite(older)
            and all(self.answer(commit) is Answer.UNKNOWN for commit in passed_over)
        )

    def _watched(self, command: Sequence[str], kept: list[Trial]) -> processes.Finished:
        """Run a command, hearing its trials as they come; interrupted, it is ended gently."""
        ran: list[processes.Finished] = []
        over = threading.Event()  # a thread that is being joined forgets that it runs, interrupted
        threading.Thread(target=self._run, args=(command, ran, over)).start()
        try:
            while not over.wait(_LOOK):
                self._hear(kept)
        except Interrupted:
            self.worktree.let_go()
            if not over.wait(_PATIENCE):
                processes.end_all()
                over.wait()
            raise
        self._hear(kept)
        return ran[0]

    def _run(
        self, command: Sequence[str], ran: list[processes.Finished], over: threading.Event
    ) -> None:
        environ = {**self.worktree.environ, "PYTHONPATH": str(ROOT)}
        folder = self.worktree.tree
        try:
            ran.append(processes.finish(command, environ=environ, folder=folder, seconds=_LONG))
        finally:
            over.set()

    def _hear(self, kept: list[Trial]) -> None:
        journal = self.worktree.folder / "journal"
        if journal.exists():
            heard = len(self.trials) + len(self.confirmations)
            for told in read_trials(journal.read_text())[heard:]:
                trial = dataclasses.replace(told, again=kept is self.confirmations)
                kept.append(trial)
                self.hear(trial)


def opposite(answer: Answer) -> Answer:
    """Return the other of the two kinds."""
    return Answer.NO if answer is Answer.YES else Answer.YES


def _lost(done: processes.Finished) -> Exception:
    said = processes.anonymous(" | ".join(done.err.strip().splitlines()[-4:]))
    found = f"exit code {done.code}: {said or done.out.strip()[-300:]}"
    fault = Fault(where="a trial", found=found, allowed="an answer", remedy="Report this.")
    return refuse(fault, ExitCode.OUR_FAULT)
