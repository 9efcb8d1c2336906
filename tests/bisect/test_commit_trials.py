from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import factories
import pytest
from laboratory import LIMITS, side

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.commit_trials import CommitTrial, Plan
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from repromatrix.runner.execution.events import Ready, Terms
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.observation import Failed, Observation

COMMIT = "0123456789abcdef0123456789abcdef01234567"
INIT = "transformers/__init__.py"


@dataclasses.dataclass
class Bench:
    """Tries one commit; `runs` lists the environments in which it was run."""

    folder: Path
    runs: list[str]

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    def plan(self, **more: object) -> Plan:
        asked = CaseQuestion(
            case=factories.case(factories.BREAKS, dependencies=["torch", "transformers>=4.50"]),
            workaround="",
            precision=Precision.BF16,
            device=Device.CPU,
        )
        return Plan(
            paths=Paths(root=self.folder / "ours"),
            asked=dataclasses.replace(asked, **more),  # type: ignore[arg-type]
            sides=(side("4.51.0"), side("4.50.3")),
            sources=PackageSources(package="transformers", root="src"),
            limits=LIMITS,
            run="a test",
        )

    def attempt(self, plan: Plan | None = None) -> CommitTrial:
        return commit_trials.attempt(plan or self.plan(), self.tree, COMMIT)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    claims(tmp_path, "4.51.0.dev0")
    return Bench(folder=tmp_path, runs=[])


def claims(folder: Path, version: str) -> None:
    package = folder / "tree" / "src" / "transformers"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')


def does(patch: pytest.MonkeyPatch, bench: Bench, **rows: Observation) -> None:
    """Let the commit do something in the environment of each end: `newer`, `older`."""

    def measure(ready: Ready, cases: Mapping[str, Case], _: Terms) -> tuple[Observation, ...]:
        end = ready.environment.name.partition("@")[0]
        bench.runs.append(end)
        row = rows["older" if end == "4.50.3" else "newer"]
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
CRASHED = row(Outcome.CRASHES, factories.failed("SIGSEGV", "died by SIGSEGV"), imports=False)
HANGS = row(Outcome.TIMES_OUT, imports=False)


def test_what_a_commit_does_is_told_with_what_was_imported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, newer=BREAKS)

    assert bench.attempt() == CommitTrial(
        commit=COMMIT,
        answer=Answer.YES,
        environment="4.51.0",
        reason="ValueError: it breaks",
        version="4.51.0.dev0+g0123456789ab",
        file=INIT,
        known=False,
    )


def test_a_commit_that_was_run_is_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    does(monkeypatch, bench, newer=WORKS)
    first, second = bench.attempt(), bench.attempt()

    assert bench.runs == ["4.51.0"]
    assert second == dataclasses.replace(first, known=True)


def test_what_the_machine_decided_is_run_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, newer=row(Outcome.OUT_OF_MEMORY))
    first = bench.attempt()
    does(monkeypatch, bench, newer=WORKS)
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
    again = dataclasses.replace(bench.plan(), again=True)
    does(monkeypatch, bench, newer=BREAKS)
    bench.attempt()
    does(monkeypatch, bench, newer=second)
    confirmed = bench.attempt(again)
    kept = [bench.attempt(), bench.attempt(again)]

    assert (confirmed.answer, confirmed.known) == (said, False)
    assert [(one.answer, one.known) for one in kept] == [(later, True)] * 2
    assert bench.runs == ["4.51.0", "4.51.0"]


@pytest.mark.parametrize("first", [UNIMPORTABLE, LATE, DEEP, CRASHED, HANGS])
def test_a_commit_that_cannot_be_imported_is_tried_in_the_other_environment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, first: Observation
) -> None:
    does(monkeypatch, bench, newer=first, older=WORKS)
    found = bench.attempt()

    assert (found.answer, found.environment) == (Answer.NO, "4.50.3")
    assert bench.runs == ["4.51.0", "4.50.3"]


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
def test_a_commit_that_cannot_be_imported_anywhere_is_never_blamed(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    unimportable: Observation,
    reason: str,
    *,
    any_failure: bool,
) -> None:
    does(monkeypatch, bench, newer=unimportable, older=unimportable)
    found = bench.attempt(bench.plan(any_failure=any_failure))

    assert (found.answer, found.environment, found.reason) == (Answer.UNKNOWN, "4.51.0", reason)


@pytest.mark.parametrize("any_failure", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.CRASHES, Outcome.TIMES_OUT])
def test_an_end_that_may_have_come_while_importing_is_never_blamed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, *, any_failure: bool
) -> None:
    ended = row(outcome, factories.failed("SIGSEGV", "died by SIGSEGV"), imports=False)
    does(monkeypatch, bench, newer=ended, older=ended)
    found = bench.attempt(bench.plan(any_failure=any_failure, case=ends_so(outcome)))

    said = f"{outcome.verb}: SIGSEGV: died by SIGSEGV, maybe while importing transformers"
    assert (found.answer, found.environment, found.reason) == (Answer.UNKNOWN, "4.51.0", said)
    assert bench.runs == ["4.51.0", "4.50.3"]


def test_an_end_of_a_package_that_said_it_was_imported_is_judged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, newer=row(Outcome.CRASHES, factories.failed("SIGSEGV", "died")))
    found = bench.attempt(bench.plan(case=ends_so(Outcome.CRASHES)))

    assert (found.answer, bench.runs) == (Answer.YES, ["4.51.0"])


def ends_so(outcome: Outcome) -> Case:
    """Return a case that describes an end as its bug."""
    told = f'[[tool.repromatrix.fails]]\nwhen = ["transformers>=4.50"]\noutcome = "{outcome}"\n'
    return factories.case(told)


def test_another_failure_is_unknown_unless_any_failure_is_bad(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, newer=OTHER)
    plain, any_failure = bench.attempt(), bench.attempt(bench.plan(any_failure=True))

    assert (plain.answer, any_failure.answer) == (Answer.UNKNOWN, Answer.YES)
    assert bench.runs == ["4.51.0"]


def test_a_case_that_describes_nothing_is_bad_by_its_signature(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, bench, newer=OTHER)
    assert OTHER.failed
    told = {"case": factories.case(), "signature": OTHER.failed.signature}

    assert bench.attempt(bench.plan(**told)).answer is Answer.YES
    assert bench.attempt(bench.plan(**{**told, "signature": "x"})).answer is Answer.UNKNOWN


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
    does(monkeypatch, bench, newer=seen)
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
