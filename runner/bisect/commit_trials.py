"""Try commits: check one out, run cells with its sources in its environment, say what they did."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.oracle import CaseQuestion, why_unknown
from repromatrix.runner.bisect.repository import SHORT, Worktree, claimed_or_nothing
from repromatrix.runner.bisect.search import Answer, agreed
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.environments.commits import Home, UndeclaredError
from repromatrix.runner.environments.development import with_commit
from repromatrix.runner.environments.locks import NoSolutionError
from repromatrix.runner.errors import ExitCode, Problem, refuse
from repromatrix.runner.evidence.answering import answering_row
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Ready, Terms, Tree
from repromatrix.runner.execution.run import measure
from repromatrix.runner.judging.verdicts import is_current, is_standing
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.text import shorten


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitTrial:
    """What a commit answered, and what was imported for it."""

    commit: str
    answer: Answer
    environment: str
    """The environment that its sources were run in; empty where none could be made."""
    digest: str = ""
    """Of that environment, without the sources."""
    version: str = ""
    file: str = ""
    known: bool = False
    """Whether it had been run before."""
    reason: str = ""
    """What it did; why it could not be judged."""
    again: bool = False
    """Whether it was asked once more, to confirm what it had answered."""


class Trial(NamedTuple):
    """What is to be tried: a commit, in its own environment or in that of another commit.

    With `again` it is run once more in a fresh process where it ran once, to confirm its answer.
    """

    commit: str
    within: str = ""
    again: bool = False


_NOT_IMPORTED = {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError"}
_LONG = 300
_WRAPPED = "Failed to import"
"""How transformers begins the message of whatever a module raised that it imported late."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitRuns:
    """Tries commits in one checkout; what they did is stored, and not run again.

    With `rerun` only rows of this run count.
    """

    home: Home
    clone: Clone
    worktree: Worktree
    terms: Terms
    rerun: bool = False
    environments: dict[tuple[object, ...], tuple[Environment, Built]] = field(default_factory=dict)
    """The environments that were made, by what they were made for."""

    def __call__(self, trial: Trial, asked: Sequence[CaseQuestion]) -> list[CommitTrial]:
        """Return what a commit answers to each question, in their order.

        Raises RunnerError where it cannot be checked out, and Interrupted.
        """
        self.worktree.check_out(trial.commit)
        answers: dict[Cell, CommitTrial] = {}
        for beside, questions in groupby(sorted(asked, key=_beside), _beside):
            answers |= self._tried(trial, list(questions), *beside)
        return [answers[question.cell(question.beside)] for question in asked]

    def _tried(
        self, trial: Trial, asked: Sequence[CaseQuestion], on: str, extras: tuple[str, ...]
    ) -> dict[Cell, CommitTrial]:
        """Return the answers of questions that share an environment, by the cell of each."""
        nothing = CommitTrial(
            commit=trial.commit, answer=Answer.UNKNOWN, environment="", again=trial.again
        )
        try:
            end, built = self._environment(trial.within or trial.commit, on, extras)
            environment = self._with_sources(end, trial.commit)
            with contextlib.closing(Store(self.home.paths.trials, lambda _: None)) as store:
                cells = _Cells(self, trial, environment, built, store)
                where = dataclasses.replace(nothing, environment=end.name, digest=end.digest)
                return dict(cells.answers(asked, where))
        except (UndeclaredError, NoSolutionError, UnbuildableError) as error:
            why = dataclasses.replace(nothing, reason=f"it has no environment: {error}")
            return {question.cell(on): why for question in asked}

    def _environment(
        self, commit: str, on: str, extras: tuple[str, ...]
    ) -> tuple[Environment, Built]:
        declared = self.clone.declared(commit)
        key = (declared, on, extras)
        if key not in self.environments:
            try:
                self.environments[key] = self.home.environment(declared, extras, on)
            except UnbuildableError as error:
                # It was resolved: that it cannot be installed here and now says nothing of the
                # commit, and stepping over it would blame another.
                what = f"the environment of {commit[:SHORT]} cannot be built ({error})"
                fix = "Run the same command again: what was found is kept."
                fault = Problem(self.clone.repository.where, what, fix)
                raise refuse(fault, ExitCode.UNBUILDABLE) from error
        return self.environments[key]

    def _with_sources(self, end: Environment, commit: str) -> Environment:
        """Return an environment with a commit in the place of the release."""
        sources = self.clone.sources
        pins = {name: version for name, version in end.pins.items() if name != sources.package}
        with contextlib.suppress(OSError):
            init = self.worktree.tree / sources.init
            claims = claimed_or_nothing(init.read_text(encoding="utf-8", errors="replace"))
            pins[sources.package] = with_commit(claims or "0", commit)
        return dataclasses.replace(
            end,
            name=f"{end.name}@{commit[:12]}",
            source=Source.INTERPRETER,
            pins=pins,
            stated_digest="",
        )


def _beside(asked: CaseQuestion) -> tuple[str, tuple[str, ...]]:
    """Return what of a question decides its environment, beside the commit."""
    return asked.beside, asked.case.extras


class _Cells(NamedTuple):
    """The cells of one commit in one environment."""

    runs: CommitRuns
    trial: Trial
    environment: Environment
    built: Built
    store: Store

    def answers(
        self, asked: Sequence[CaseQuestion], where: CommitTrial
    ) -> Iterator[tuple[Cell, CommitTrial]]:
        """Yield the answer to each question; raises UnbuildableError."""
        due = []
        firsts: dict[Cell, Observation | None] = {}
        for question in asked:
            own = question.cell(question.beside)
            if reasons := obstacles(question.case, self.environment, question.device):
                yield own, dataclasses.replace(where, reason="; ".join(reasons))
                continue
            row = firsts[own] = self.known(question)
            if row is not None and (row.repeats > 1 or not self.trial.again):
                yield own, dataclasses.replace(self._judged(question, row, where), known=True)
            else:
                due.append(question)
        rows = self._measured(due)
        for question in due:
            own, row = question.cell(question.beside), rows[question.cell(self.environment.name)]
            first = firsts[own]
            self.store.put(row if first is None else _confirmed(question, first, row, self.package))
            yield own, self._judged(question, row, where)

    @property
    def package(self) -> str:
        """The package whose sources are tried."""
        return self.runs.clone.sources.package

    def _judged(self, question: CaseQuestion, row: Observation, where: CommitTrial) -> CommitTrial:
        answer = _answer(question, row, self.package)
        return dataclasses.replace(
            where,
            answer=answer,
            reason=_reason(question, row, self.package, answer),
            version=row.provenance.packages.get(self.package, ""),
            file=row.provenance.imported.get(self.package, ""),
        )

    def _measured(self, asked: Sequence[CaseQuestion]) -> Mapping[Cell, Observation]:
        """Run what is due in one worker, or each in a fresh process to confirm it."""
        if not asked:
            return {}
        sources, paths = self.runs.clone.sources, self.runs.home.paths
        ready = Ready(
            environment=self.environment,
            built=self.built,
            cells=tuple(question.cell(self.environment.name) for question in asked),
            tree=Tree(
                package=sources.package,
                path=self.runs.worktree.tree / sources.root,
                kept=paths.kept,
            ),
        )
        terms = self.runs.terms
        terms = dataclasses.replace(terms, fork=terms.fork and not self.trial.again)
        cases = {question.case.name: question.case for question in asked}
        return {row.cell: row for row in measure(ready, cases, terms)}

    def known(self, asked: CaseQuestion) -> Observation | None:
        """Return the stored row of today's case that answers; with `rerun`, only of this run."""
        cell, runs = asked.cell(self.environment.name), self.runs
        rows = [
            row
            for row in self.store.rows({cell.case})
            if row.cell == cell and (not runs.rerun or row.provenance.run == runs.terms.run)
        ]
        if not rows:
            return None
        case, environment = asked.case, self.environment
        row = answering_row(rows, lambda row: is_standing(row, case, environment))
        return row if is_current(row, case, environment) and row.outcome.is_evidence else None


def _confirmed(
    asked: CaseQuestion, known: Observation, repeat: Observation, package: str
) -> Observation:
    """Return what is stored of a row and its repeat: unstable where the two contradict."""
    if repeat.outcome.blames_machine:
        return known
    first, second = (_answer(asked, row, package) for row in (known, repeat))
    if first is Answer.UNKNOWN:
        return dataclasses.replace(repeat, repeats=2)
    unstable = agreed({known.cell: first}, known.cell, second)
    return dataclasses.replace(known, repeats=2, unstable=unstable is Answer.UNKNOWN)


def _answer(asked: CaseQuestion, row: Observation, package: str) -> Answer:
    """Say whether a commit is bad; one that cannot be imported is never blamed.

    A pass without importing the package says nothing about it, nor does a process that ended
    before it reported the import.
    """
    passed_by = row.outcome is Outcome.PASSES and package not in row.provenance.imported
    if not row.outcome.was_run or passed_by or _ended_before_import(row, package):
        return Answer.UNKNOWN
    described = dataclasses.replace(asked, any_failure=False).answer(row)
    if described is not Answer.UNKNOWN or _is_unimportable(row, package):
        return described
    return asked.answer(row)


def _ended_before_import(row: Observation, package: str) -> bool:
    """Say whether the process was ended, by a crash or a time limit, before it reported imports."""
    ended = row.outcome.is_failure and row.outcome is not Outcome.FAILS
    return ended and package not in row.provenance.imported


def _is_unimportable(row: Observation, package: str) -> bool:
    """Say whether a failure happened while the package, or a part of it, was being imported."""
    failed = row.failed
    if row.outcome is not Outcome.FAILS or failed is None:
        return False
    inside = rf'File "(?:[^"]*/)?{re.escape(package)}/[^"]*", line \d+, in <module>'
    return (
        package not in row.provenance.imported
        or failed.error_class in _NOT_IMPORTED
        or _WRAPPED in failed.message
        or re.search(inside, failed.traceback) is not None
    )


def _reason(asked: CaseQuestion, row: Observation, package: str, bad: Answer) -> str:
    if bad is not Answer.UNKNOWN:
        return asked.told(row, bad)
    if _ended_before_import(row, package):
        return f"{row.described}, maybe while importing {package}"
    if row.unstable:
        return why_unknown(row)
    if row.failed is not None and _is_unimportable(row, package):
        # The first line of what a late import raises does not say why.
        why = shorten(row.failed.message, _LONG)
        return f"cannot be imported: {row.failed.error_class}: {why}"
    if row.outcome is Outcome.PASSES and package not in row.provenance.imported:
        return f"passes without importing {package}"
    return asked.told(row, bad)
