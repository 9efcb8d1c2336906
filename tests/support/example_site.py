"""A small site with something of everything: what `tests/reports/expected` shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from one_case import (
    BLOCK,
    BROKE_AGAIN,
    ENVIRONMENTS,
    PUBLICATION,
    a_case,
    fake_run,
    judged,
    pinned,
)
from swept import LINE, line, numbers, record

from repromatrix.reports.build import render
from repromatrix.reports.site import Published, SweptSite
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.evidence.swept.history import SweepHistory, SweptRelease, history
from repromatrix.runner.evidence.swept.published import PublishedFinding, RefusedType
from repromatrix.runner.evidence.swept.records import ProbeStatus

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

DATES = {"4.50.0": "2025-03-21", "4.50.1": "2025-03-25", "4.51.0": "2025-04-05"}
SHARED = a_case(BLOCK.replace('["gemma3"]', '["gemma3"]\nsame-code = ["paligemma"]'))
ANY = a_case(
    BLOCK.replace('["gemma3"]', '"any"\nshown-with = ["llama"]\nconcerns = "Not encoders."'),
    name="any_adapter",
)
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


def published_run(cell: Cell) -> Observation | None:
    seen = fake_run(cell)
    return replace(seen, source=PUBLICATION.name) if seen else None


def draw(folder: Path) -> None:
    """Render the site: one case is published, the other was measured here."""
    published = Published(
        publications={PUBLICATION.name: PUBLICATION},
        records=(RECORD,),
        base_url="https://x.org/r/",
        source="https://github.com/x/r",
        swept=SWEPT,
    )
    render(
        {case.name: case for case in (ANY, SHARED)},
        ENVIRONMENTS,
        [*judged(case=ANY), *judged(published_run, SHARED)],
        folder,
        areas={"kv-cache": "The cache of keys and values"},
        dates=DATES,
        commits=COMMITS,
        published=published,
    )
