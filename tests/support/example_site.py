"""A small site with something of everything: what `tests/reports/expected` shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from one_case import BLOCK, BROKE_AGAIN, ENVIRONMENTS, PUBLICATION, a_case, fake_run, judged, pinned
from swept import LINE, line, numbers, record

from repromatrix.reports.build import render
from repromatrix.reports.site import Published, SweptSite
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.evidence.swept.history import SweepHistory, SweptRelease
from repromatrix.runner.evidence.swept.published import PublishedFinding, RefusedType
from repromatrix.runner.evidence.swept.records import ProbeStatus
from repromatrix.runner.model.observation import Failed
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision
from repromatrix.sweep.publishing import history

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

DATES = {"4.50.0": "2025-03-21", "4.50.1": "2025-03-25", "4.51.0": "2025-04-05"}
SHARED = a_case(BLOCK.replace('["gemma3"]', '["gemma3"]\nsame-code = ["paligemma"]'))
ODD = a_case(
    BLOCK.replace('["gemma3"]', '"any"\nshown-with = ["llama"]\nconcerns = "Not encoders."')
    .replace('["error"]', '["nan-or-inf"]\nsimulates = "A small tokenizer."')
    .replace('area = "kv-cache"', 'area = "loading"'),
    name="any_adapter",
)
OTHER = Failed(error_class="KeyError", message="other", signature="KeyError: other")
ODDITIES: dict[tuple[str, str, Precision], dict[str, object]] = {
    ("", "4.50.0", Precision.FP32): {"exercised": Exercised.NO},
    ("", "4.50.1", Precision.FP32): {"unstable": True, "repeats": 3},
    ("", "4.51.0", Precision.FP32): {"measured": {"error": float("nan")}},
    ("", "4.50.0", Precision.BF16): {"failed": OTHER},
    ("", "4.50.1", Precision.BF16): {"outcome": Outcome.PASSES, "failed": None},
    ("", "4.51.0", Precision.BF16): {"outcome": Outcome.CRASHES, "reason": "signal 11"},
    ("", "4.50.0", Precision.FP16): {"outcome": Outcome.DECLINES, "reason": "no"},
    ("", "4.50.1", Precision.FP16): {"outcome": Outcome.OUT_OF_MEMORY, "reason": "2 GB"},
    ("", "4.51.0", Precision.FP16): {"outcome": Outcome.FAILS, "failed": OTHER},
    ("away", "4.50.0", Precision.FP32): {"outcome": Outcome.NOT_RUN},
    ("away", "4.50.1", Precision.FP32): {"outcome": Outcome.TIMES_OUT, "reason": "60 s"},
    ("cache-off", "4.51.0", Precision.FP32): {"measured": {"error": 2.0}},
}
"""What is otherwise in some cells of the second case: a mark of every kind."""
OLD = ("away", "4.50.1", Precision.FP16)
"""A cell of it that was measured before the case was edited."""
RECORD = SnapshotRecord(
    publication="2026-11-21",
    date="2026-11-21",
    against="2026-11-01",
    changes=(BROKE_AGAIN,),
    new=(("b", 1), ("a", 2)),
)
COMMITS = {
    row.key: row
    for row in (pinned("break", "4.49.0", "4.50.0", "a"), pinned("fix", "4.50.1", "4.51.0"))
}

HOLDS, FAILS, SKIPPED = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED
HISTORY = line(
    [record("llama", "static", HOLDS), record("llama", "tied", SKIPPED, "not tied")],
    [record("llama", "static", FAILS, "<b>size</b> 3"), record("llama", "tied", SKIPPED, "no")],
    [
        record("llama", "static", FAILS, "<b>size</b> 4"),
        record("llama", "tied", SKIPPED, "not tied"),
        numbers("gptj", 1.0),
    ],
)
"""static fails on llama since 4.50.0; gptj is there from 4.51.0."""
REFUSED = RefusedType("bark", "4.51.0", "inputs", "a forward that nobody wrote")
FINDINGS = (
    PublishedFinding("4.50.0", "4.49.0", "broken-1", "broken", "llama", "static", "<b>", "m:f"),
    PublishedFinding(
        "4.51.0", "", "broken-2", "bad in 16 bit", "llama gptj", "loaded-bf16", "no", ""
    ),
)
OF_A_CLASS = PublishedFinding(
    *("4.50.0", "4.49.0", "broken-3", "broken", "llama:LlamaModel", "outputs-bf16", "no", "")
)


def classes(*names: str) -> SweepHistory:
    """Return what was found of further classes: the last one fails on 4.50.0."""
    return history(
        [SweptRelease(name, "e1", "x86_64", 3, ("static",), ()) for name in LINE[:2]],
        {
            name: {
                one.key: one
                for kind in names
                for one in [record(kind, "outputs-bf16", state if kind == names[-1] else HOLDS)]
            }
            for name, state in zip(LINE[:2], (HOLDS, FAILS), strict=True)
        },
        [(name, name.partition(":")[2], "4.49.0") for name in names],
    )


FURTHER = classes("llama:LlamaForTokenClassification", "llama:LlamaModel")
SWEPT = SweptSite(
    history=HISTORY,
    findings=FINDINGS,
    refused=(REFUSED,),
    classes=SweptSite(history=FURTHER, findings=(OF_A_CLASS,)),
)


def shared_run(cell: Cell) -> Observation | None:
    """Behave as the case describes, and be published."""
    seen = fake_run(cell)
    if seen is None:
        return None
    ran = replace(seen.provenance, case_digest=SHARED.digest)
    return replace(seen, provenance=ran, source=PUBLICATION.name)


def odd_run(cell: Cell) -> Observation | None:
    seen = fake_run(cell)
    at = (cell.workaround, cell.environment, cell.precision)
    if seen is None:
        return None
    if at == OLD:
        return replace(seen, provenance=replace(seen.provenance, case_digest="old"))
    own = replace(seen, provenance=replace(seen.provenance, case_digest=ODD.digest))
    return replace(own, **ODDITIES.get(at, {}))  # type: ignore[arg-type]


def draw(folder: Path) -> None:
    """Render the site: one case is published, the odd one was measured here."""
    published = Published(
        publications={PUBLICATION.name: PUBLICATION},
        records=(RECORD,),
        base_url="https://x.org/r/",
        source="https://github.com/x/r",
        swept=SWEPT,
    )
    render(
        {case.name: case for case in (ODD, SHARED)},
        ENVIRONMENTS,
        [*judged(odd_run, ODD), *judged(shared_run, SHARED)],
        folder,
        dates=DATES,
        commits=COMMITS,
        published=published,
    )
