"""Made-up histories, searched with trials that take no time."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import factories
from histories import History, sources

from repromatrix.runner.bisect.clone import Clone, open_clone
from repromatrix.runner.bisect.commit_search import CommitSearch, Inquiry, find_commits, search
from repromatrix.runner.bisect.commit_trials import CommitTrial, Trial
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.environments.building import Built
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import LOCAL, Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from repromatrix.runner.bisect.commits import CommitAnswer
    from repromatrix.runner.environments.commits import Declaration
    from repromatrix.runner.execution.events import Ready
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment

HERE = Path(__file__).parent
LIMITS = Limits.model_validate({"seconds": 60, "memory": 768})
STATE = "src/transformers/state.txt"
ANSWERS = {"works": Answer.NO, "breaks": Answer.YES}
BY_ENVIRONMENT = {"works only in the older": {"newer": Answer.YES, "older": Answer.NO}}
ONCE = {"works once": (Answer.NO, Answer.YES), "breaks once": (Answer.YES, Answer.NO)}


@dataclasses.dataclass
class QuickTrials:
    """Says what a commit does by the state that it holds: `breaks`, or `older/breaks`.

    What stands before the slash is the environment that the commit has, `newer` without one.
    """

    clone: Clone
    asked: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    """Every commit that was tried, and of how many questions."""

    def __call__(self, trial: Trial, asked: Sequence[CaseQuestion]) -> list[CommitTrial]:
        self.asked.append((trial.commit, len(asked)))
        environment, _ = self._read(trial.within or trial.commit)
        _, state = self._read(trial.commit)
        return [self._said(trial, environment, state, question) for question in asked]

    def _said(
        self, trial: Trial, environment: str, state: str, question: CaseQuestion
    ) -> CommitTrial:
        # Several questions: `bf16 breaks, fp16 works`.
        said = dict(part.split(" ", 1) for part in state.split(", ")) if ", " in state else {}
        state = said.get(question.precision, state)
        always = ONCE[state][trial.again] if state in ONCE else ANSWERS.get(state, Answer.UNKNOWN)
        answer = BY_ENVIRONMENT.get(state, {}).get(environment, always)
        return CommitTrial(
            commit=trial.commit,
            answer=answer,
            environment=environment,
            reason=state,
            again=trial.again,
        )

    def _read(self, commit: str) -> tuple[str, str]:
        text = self.clone.repository.blob(commit, STATE) or ""
        environment, _, state = text.rpartition("/")
        return environment or "newer", state


class FakeHome:
    """Has one environment for every commit, and builds nothing."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    def environment(
        self, declared: Declaration, extras: tuple[str, ...], on: str
    ) -> tuple[Environment, Built]:
        assert (declared.package, extras) == ("transformers", ())
        name = on or "4.50.3"
        built = Built(name=name, folder=Path("nowhere"), python=Path("python"), versions={})
        return factories.environment(name), built


def measure(ready: Ready, cases: Mapping[str, Case], terms: Terms) -> tuple[Observation, ...]:
    """Take the place of `run.measure`: read from the tree what the commit does."""
    assert terms.jobs == 1
    assert ready.tree
    tree = ready.tree
    state = (tree.path / tree.package / "state.txt").read_text()
    if state == "slow":
        time.sleep(0 if (tree.path.parents[5] / "quick").exists() else 60)
        state = "works"
    outcome, how = {
        "works": (Outcome.PASSES, None),
        "breaks": (Outcome.FAILS, factories.failed()),
        "other": (Outcome.FAILS, factories.failed("TypeError", "something else")),
    }[state]
    rows = []
    for cell in ready.cells:
        ran = dataclasses.replace(
            factories.provenance(cases[cell.case], ready.environment),
            imported={tree.package: f"{tree.package}/__init__.py"},
            run=terms.run,
        )
        rows.append(
            Observation(cell=cell, outcome=outcome, provenance=ran, source=LOCAL, failed=how)
        )
    return tuple(rows)


@dataclasses.dataclass
class Laboratory:
    """A clone, a checkout of our own project, and a case that breaks on 4.50."""

    folder: Path
    history: History

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    def inquiry(self, edge: Edge = Edge.RISE, **more: object) -> Inquiry:
        told = {
            "asked": self.asked(),
            "edge": edge,
            "older": factories.environment("4.50.3"),
            "newer": factories.environment("4.51.0"),
        }
        return Inquiry(**{**told, **more})  # type: ignore[arg-type]

    def asked(self, **more: object) -> CaseQuestion:
        path = self.folder / "toy_breaks.py"
        path.write_text(factories.case_text(factories.BREAKS))
        case = dataclasses.replace(factories.case(factories.BREAKS), path=str(path))
        told = {"case": case, "workaround": "", "precision": Precision.BF16, "device": Device.CPU}
        return CaseQuestion(**{**told, **more})  # type: ignore[arg-type]

    def search(self, inquiry: Inquiry | None = None) -> CommitAnswer:
        """Search with trials that take no time."""
        clone = open_clone(self.clone)
        searches = [CommitSearch(inquiry or self.inquiry(), clone)]
        return search(searches, QuickTrials(clone))[0]

    def try_out(self, run: str = "a test", *, rerun: bool = False) -> CommitAnswer:
        """Search with all that a trial does, but measure: `measure` above is to be patched in."""
        terms = Terms(limits=LIMITS, device=Device.CPU, run=run)
        home = FakeHome(Paths(root=self.folder / "ours"))
        clone = open_clone(self.clone)
        return find_commits(home, clone, [self.inquiry()], terms, rerun=rerun)[0]  # type: ignore[arg-type]

    def named(self, answer: CommitAnswer) -> list[str]:
        return [self.history.name(commit.sha) for commit in answer.candidates]

    def tried(self, answer: CommitAnswer) -> list[tuple[str, str]]:
        return [(self.history.name(one.commit), one.answer) for one in answer.trials]


def laboratory(folder: Path, history: History) -> Laboratory:
    history.write(folder / "clone")
    return Laboratory(folder=folder, history=history)


def straight(folder: Path, states: Sequence[str], **names: str) -> Laboratory:
    """Write one line of commits `0`, `1`, …, tagged at both ends."""
    history = History()
    for number, state in enumerate(states):
        files = {**sources("4.51.0.dev0", state), "number": str(number)}
        history.commit(str(number), files, message=names.get(f"m{number}", ""))
    history.commit("old release", sources("4.50.3", states[0]), branch="old", on="0")
    last = str(len(states) - 1)
    history.commit("new release", sources("4.51.0", states[-1]), branch="new", on=last)
    history.tag("v4.50.3", "old release")
    history.tag("v4.51.0", "new release")
    return laboratory(folder, history)
