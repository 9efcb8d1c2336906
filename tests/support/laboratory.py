"""Made-up histories, searched with trials that take no time."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import factories
from histories import History, sources

from repromatrix.runner.bisect.commit_search import Inquiry, search
from repromatrix.runner.bisect.commit_trials import TrialSide
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.environments.building import Built
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repromatrix.runner.bisect.commits import CommitAnswer

HERE = Path(__file__).parent
QUICK = (sys.executable, "-I", "-S", str(HERE / "quick_trial.py"))
"""Says what a commit does, and no more."""
FAKE = (sys.executable, "-P", str(HERE / "fake_trial.py"))
"""Does all that a trial does, but measure."""
LIMITS = Limits.model_validate({"seconds": 60, "memory": 768})


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
            "older": side("4.50.3"),
            "newer": side("4.51.0"),
            "limits": LIMITS,
            "run": "a test",
        }
        return Inquiry(**{**told, **more})  # type: ignore[arg-type]

    def asked(self, **more: object) -> CaseQuestion:
        path = self.folder / "toy_breaks.py"
        path.write_text(factories.case_text(factories.BREAKS))
        case = dataclasses.replace(factories.case(factories.BREAKS), path=str(path))
        told = {"case": case, "workaround": "", "precision": Precision.BF16, "device": Device.CPU}
        return CaseQuestion(**{**told, **more})  # type: ignore[arg-type]

    def search(
        self, inquiry: Inquiry | None = None, command: Sequence[str] = QUICK
    ) -> CommitAnswer:
        places = Paths(root=self.folder / "ours")
        return search(places, inquiry or self.inquiry(), self.clone, command=command)

    def named(self, answer: CommitAnswer) -> list[str]:
        return [self.history.name(commit.sha) for commit in answer.candidates]

    def tried(self, answer: CommitAnswer) -> list[tuple[str, str]]:
        return [(self.history.name(one.commit), one.answer) for one in answer.trials]


def side(name: str) -> TrialSide:
    built = Built(name=name, folder=Path("nowhere"), python=Path("python"), versions={})
    return TrialSide(environment=factories.environment(name), built=built)


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
