from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import factories
import pytest
from laboratory import LIMITS

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.commit_trials import CommitRuns, CommitTrial, Trial
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.environments.building import Built
from repromatrix.runner.environments.commits import UndeclaredError
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.execution.events import Ready
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment
    from repromatrix.runner.model.observation import Failed, Observation

COMMIT = "0123456789abcdef0123456789abcdef01234567"
INIT = "transformers/__init__.py"


@dataclasses.dataclass
class Bench:
    """Tries one commit; `runs` lists the environments in which it was run."""

    folder: Path
    runs: list[str]
    undeclared: bool = False

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    def asked(self, **more: object) -> CaseQuestion:
        asked = CaseQuestion(
            case=factories.case(factories.BREAKS, dependencies=["torch", "transformers>=4.50"]),
            workaround="",
            precision=Precision.BF16,
            device=Device.CPU,
        )
        return dataclasses.replace(asked, **more)  # type: ignore[arg-type]

    def attempt(self, asked: CaseQuestion | None = None, *, again: bool = False) -> CommitTrial:
        runs = CommitRuns(
            home=self,  # type: ignore[arg-type]
            clone=self,  # type: ignore[arg-type]
            worktree=self,  # type: ignore[arg-type]
            terms=Terms(limits=LIMITS, device=Device.CPU, run="a test"),
        )
        (trial,) = runs(Trial(COMMIT, again=again), [asked or self.asked()])
        return trial

    # The part of a worktree, of a clone and of a home that a trial uses.

    sources = PackageSources(package="transformers", root="src")

    @property
    def paths(self) -> Paths:
        return Paths(root=self.folder / "ours")

    def check_out(self, commit: str) -> None:
        assert commit == COMMIT

    def declared(self, commit: str) -> str:
        if self.undeclared:
            raise UndeclaredError(where="setup.py", why="it is empty")
        return commit

    def environment(
        self, declared: str, extras: tuple[str, ...], on: str
    ) -> tuple[Environment, Built]:
        assert (declared, extras, on) == (COMMIT, (), "")
        built = Built(name="4.51.0", folder=Path("nowhere"), python=Path("python"), versions={})
        return factories.environment("4.51.0"), built


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    claims(tmp_path, "4.51.0.dev0")
    return Bench(folder=tmp_path, runs=[])


def claims(folder: Path, version: str) -> None:
    package = folder / "tree" / "src" / "transformers"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')


def does(patch: pytest.MonkeyPatch, bench: Bench, row: Observation | None = None) -> None:
    """Let the commit do something."""

    def measure(ready: Ready, cases: Mapping[str, Case], _: Terms) -> tuple[Observation, ...]:
        bench.runs.append(ready.environment.name.partition("@")[0])
        assert row is not None
        ran = dataclasses.replace(
            factories.provenance(cases[ready.cells[0].case], ready.environment),
            imported=row.provenance.imported,
        )
        return (dataclasses.replace(row, cell=ready.cells[0], provenance=ran),)

    patch.setattr(commit_trials, "measure", measure)


def row(outcome: Outcome, how: Failed | None = None, *, imports: bool = True) -> Observation:
    ran = dataclasses.replace(
        factories.provenance(), imported={"transformers": INIT} if imports else {}
    )
    return factories.seen(outcome, how=how, ran=ran)


WORKS = row(Outcome.PASSES)
BREAKS = row(Outcome.FAILS)
OTHER = row(Outcome.FAILS, factories.failed("TypeError", "something else"))
UNIMPORTABLE = row(Outcome.FAILS, factories.failed("NameError", "torch"), imports=False)
LATE = row(
    Outcome.FAILS,
    factories.failed("RuntimeError", "Failed to import transformers.x because\nno name y"),
)
DEEP = row(
    Outcome.FAILS,
    dataclasses.replace(
        factories.failed("TypeError", "metaclass"),
        traceback='  File "transformers/models/x.py", line 3, in <module>\n',
    ),
)


def test_what_a_commit_does_is_told_with_what_was_imported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, BREAKS)

    assert bench.attempt() == CommitTrial(
        commit=COMMIT,
        answer=Answer.YES,
        environment="4.51.0",
        digest=factories.environment("4.51.0").digest,
        reason="ValueError: it breaks",
        version="4.51.0.dev0+g0123456789ab",
        file=INIT,
        known=False,
    )


def test_what_the_machine_decided_is_run_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, row(Outcome.OUT_OF_MEMORY))
    first = bench.attempt()
    does(monkeypatch, bench, WORKS)
    second = bench.attempt()

    assert (first.answer, second.answer) == (Answer.UNKNOWN, Answer.NO)
    assert bench.runs == ["4.51.0", "4.51.0"]


@pytest.mark.parametrize(
    ("second", "said", "later"),
    [
        (BREAKS, Answer.YES, Answer.YES),
        (WORKS, Answer.NO, Answer.UNKNOWN),
        (OTHER, Answer.UNKNOWN, Answer.YES),
    ],
)
def test_what_answers_otherwise_when_it_is_run_once_more_answers_nothing_later(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    second: Observation,
    said: Answer,
    later: Answer,
) -> None:
    does(monkeypatch, bench, BREAKS)
    bench.attempt()
    does(monkeypatch, bench, second)
    confirmed = bench.attempt(again=True)
    kept = [bench.attempt(), bench.attempt(again=True)]

    assert (confirmed.answer, confirmed.known) == (said, False)
    assert [(one.answer, one.known) for one in kept] == [(later, True)] * 2
    assert bench.runs == ["4.51.0", "4.51.0"]


def test_a_commit_whose_needs_cannot_be_read_is_not_judged(bench: Bench) -> None:
    bench.undeclared = True

    assert bench.attempt() == CommitTrial(
        commit=COMMIT,
        answer=Answer.UNKNOWN,
        environment="",
        reason="it has no environment: setup.py does not say what it needs: it is empty",
    )


@pytest.mark.parametrize("any_failure", [False, True])
@pytest.mark.parametrize(
    ("unimportable", "reason"),
    [
        (UNIMPORTABLE, "cannot be imported: NameError: torch"),
        (
            LATE,
            "cannot be imported: RuntimeError: Failed to import transformers.x because no name y",
        ),
        (DEEP, "cannot be imported: TypeError: metaclass"),
    ],
)
def test_a_commit_that_cannot_be_imported_is_never_blamed(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    unimportable: Observation,
    reason: str,
    *,
    any_failure: bool,
) -> None:
    does(monkeypatch, bench, unimportable)
    found = bench.attempt(bench.asked(any_failure=any_failure))

    assert (found.answer, found.environment, found.reason) == (Answer.UNKNOWN, "4.51.0", reason)


@pytest.mark.parametrize("any_failure", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.CRASHES, Outcome.TIMES_OUT])
def test_an_end_that_may_have_come_while_importing_is_never_blamed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, *, any_failure: bool
) -> None:
    ended = row(outcome, factories.failed("SIGSEGV", "died by SIGSEGV"), imports=False)
    does(monkeypatch, bench, ended)
    found = bench.attempt(bench.asked(any_failure=any_failure, case=ends_so(outcome)))

    said = f"{outcome.verb}: SIGSEGV: died by SIGSEGV, maybe while importing transformers"
    assert (found.answer, found.environment, found.reason) == (Answer.UNKNOWN, "4.51.0", said)
    assert bench.runs == ["4.51.0"]


def test_an_end_of_a_package_that_said_it_was_imported_is_judged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, row(Outcome.CRASHES, factories.failed("SIGSEGV", "died")))
    found = bench.attempt(bench.asked(case=ends_so(Outcome.CRASHES)))

    assert (found.answer, bench.runs) == (Answer.YES, ["4.51.0"])


def ends_so(outcome: Outcome) -> Case:
    """Return a case that describes an end as its bug."""
    told = f'[[tool.repromatrix.fails]]\nwhen = ["transformers>=4.50"]\noutcome = "{outcome}"\n'
    return factories.case(told)


def test_a_case_that_describes_nothing_is_bad_by_its_signature(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, OTHER)
    assert OTHER.failed
    told = {"case": factories.case(), "signature": OTHER.failed.signature}

    assert bench.attempt(bench.asked(**told)).answer is Answer.YES
    assert bench.attempt(bench.asked(**{**told, "signature": "x"})).answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (row(Outcome.PASSES, imports=False), "passes without importing transformers"),
        (dataclasses.replace(WORKS, exercised=Exercised.NO), "passes without computing in bf16"),
        (
            dataclasses.replace(row(Outcome.NOT_RUN), reason="refused: transformers is no file"),
            "was not run (refused: transformers is no file)",
        ),
    ],
)
def test_a_pass_that_proves_nothing_is_unknown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, seen: Observation, reason: str
) -> None:
    does(monkeypatch, bench, seen)
    found = bench.attempt()

    assert (found.answer, found.reason) == (Answer.UNKNOWN, reason)


def test_a_commit_to_which_the_case_does_not_apply_is_not_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench)
    claims(bench.folder, "4.49.0.dev0")
    found = bench.attempt()

    reason = "needs transformers>=4.50, has 4.49.0.dev0+g0123456789ab"
    assert (found.answer, found.reason, bench.runs) == (Answer.UNKNOWN, reason, [])
