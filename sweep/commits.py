"""The commit behind a finding: its probe runs on the commits between the two releases."""

from __future__ import annotations

from dataclasses import dataclass

from repromatrix.runner.bisect.commit_search import Inquiry
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.evidence.swept.changes import Kind, ProbeChange, change_of, difference
from repromatrix.runner.evidence.swept.probes import PROBES, WEIGHTS
from repromatrix.runner.evidence.swept.records import ProbeRecord, ProbeStatus
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.sweep.cells import probe_case, records
from repromatrix.sweep.recipe_files import ModelRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeQuestion(CaseQuestion):
    """Whether a probe does on a commit what it does on the bad side of a change."""

    change: ProbeChange

    def answer(self, row: Observation) -> Answer:
        """Say which side of the change a commit is like.

        There is no answer where it is like both or neither: another failure, renamed weights.
        """
        now = records([row]).get(self.change.after.key)
        if now is None:
            return Answer.UNKNOWN
        old, new = _alike(self.change.before, now), _alike(self.change.after, now)
        if old is new:
            return Answer.UNKNOWN
        return Answer.YES if new is not (self.change.kind is Kind.FIXED) else Answer.NO

    def told(self, row: Observation, answer: Answer) -> str:  # noqa: ARG002 - numbers say it
        """Say what the probe found on a commit."""
        now = records([row]).get(self.change.after.key)
        if now is None:
            return "the model is not built"
        if not now.summary:
            return now.headline
        apart = difference(self.change.before.summary, now.summary)
        return f"{apart:.2g} from the outputs of the older release"


def inquiry_of(
    change: ProbeChange, recipe: ModelRecipe, older: Environment, newer: Environment
) -> Inquiry:
    """Return what is asked of the commits between the two releases of a change."""
    by_name = {probe.name: probe for probe in PROBES}
    probe = by_name.get(change.after.key.probe, PROBES[0])  # any says whether a model is built
    return Inquiry(
        asked=ProbeQuestion(
            case=probe_case(recipe, probe.family, [probe], alone=True),
            workaround="",
            precision=Precision.FP32,
            device=Device.CPU,
            any_failure=True,
            change=change,
        ),
        edge=Edge.FALL if change.kind is Kind.FIXED else Edge.RISE,
        older=older,
        newer=newer,
    )


def _alike(side: ProbeRecord, now: ProbeRecord) -> bool:
    if now.status in {ProbeStatus.SKIPPED, ProbeStatus.UNKNOWN}:
        return False
    if side.summary and now.summary and side.summary.get(WEIGHTS) != now.summary.get(WEIGHTS):
        return False
    return change_of(side, now) is None
