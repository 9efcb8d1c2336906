"""A site in which every field of a case, an outcome and a publication is markup."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from one_case import ENVIRONMENTS, PUBLICATION, a_case, judged, observed

from repromatrix.reports.build import render
from repromatrix.reports.site import Published, SweptSite
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.compare.snapshots import Changed, SnapshotRecord
from repromatrix.runner.evidence.history import HistoryAnswer, HistoryKey, HistoryPoint, MainHistory
from repromatrix.runner.evidence.swept.history import SweptRelease
from repromatrix.runner.evidence.swept.published import PublishedFinding, RefusedType
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.evidence.swept.triage import TriagedFinding, TriageVerdict
from repromatrix.runner.model.observation import Failed, Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.sweep.publishing import history

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Cell

HOSTILE = "'\"><img src=x onerror=alert(1)></pre><!--<script>alert(1)</script>{{ 7*7 }}&amp;\udcff"


def hostile_case() -> Case:
    case = a_case(docstring=f"{HOSTILE[:-1]}.")
    workarounds = {f"with {HOSTILE}": next(iter(case.block.workarounds.values()))}
    claim = case.block.claims[0].model_copy(update={"says": HOSTILE, "report": HOSTILE})
    entry = case.block.fails[0].model_copy(
        update={"raises": (HOSTILE,), "match": (HOSTILE,), "note": HOSTILE, "fixed_by": HOSTILE}
    )
    block = case.block.model_copy(
        update={
            "title": HOSTILE,
            "area": HOSTILE,
            "models": (HOSTILE,),
            "needs": (HOSTILE,),
            "reports": (HOSTILE, f"javascript:{HOSTILE}", f"https://x/{HOSTILE}"),
            "simulates": HOSTILE,
            "workarounds": workarounds,
            "claims": (claim,),
            "fails": (entry,),
        }
    )
    return replace(case, block=block)


def hostile_run(cell: Cell) -> Observation:
    failed = Failed(
        error_class=HOSTILE, message=HOSTILE, signature=HOSTILE, traceback=f"{HOSTILE}\n{HOSTILE}"
    )
    seen = observed(
        cell,
        Outcome.FAILS if cell.precision is Precision.BF16 else Outcome.PASSES,
        failed=failed if cell.precision is Precision.BF16 else None,
        reason=HOSTILE,
        unstable=cell.precision is Precision.FP16,
        computed={HOSTILE: 1},
        measured={HOSTILE: 1.0},
        source=HOSTILE,
    )
    packages = {"accelerate": HOSTILE, "transformers": HOSTILE}
    provenance = replace(
        seen.provenance,
        hardware=HOSTILE,
        torch_build=HOSTILE,
        python=HOSTILE,
        packages=packages,
    )
    return replace(seen, provenance=provenance)


def hostile_sweep() -> SweptSite:
    """Return a sweep of one architecture in which every text is markup."""
    key = ProbeKey(HOSTILE, "static")
    failing = ProbeRecord(
        key=key, status=ProbeStatus.FAILS, error=HOSTILE, message=HOSTILE, place=HOSTILE
    )
    release = SweptRelease("4.50.0", HOSTILE, HOSTILE, 1, (), ())
    finding = PublishedFinding(
        "4.50.0", "", HOSTILE, "bad in 16 bit", HOSTILE.replace(" ", ""), HOSTILE, HOSTILE, HOSTILE
    )
    return SweptSite(
        history=history([release], {"4.50.0": {key: failing}}, [(HOSTILE, HOSTILE, HOSTILE)]),
        findings=(finding,),
        refused=(RefusedType(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        triage={
            HOSTILE: (
                TriagedFinding(
                    name=HOSTILE,
                    verdict=TriageVerdict.BUG,
                    says=HOSTILE,
                    architectures=(HOSTILE.replace(" ", ""),),
                    case="x",
                    reports=(HOSTILE,),
                ),
            )
        },
    )


def draw_hostile(folder: Path) -> None:
    """Write a site in which every field of a case, an outcome and a publication is markup."""
    case = hostile_case()
    told = Changed(
        change=CellChange.BROKE,
        case=HOSTILE,
        workaround=HOSTILE,
        precision=HOSTILE,
        device=HOSTILE,
        environments=(HOSTILE,),
        before=HOSTILE,
        after=HOSTILE,
    )
    record = SnapshotRecord(
        publication=HOSTILE,
        date="2026-11-21",
        against=HOSTILE,
        changes=(told,),
        new=((HOSTILE, 1),),
        gone=((HOSTILE, 1),),
    )
    published = Published(
        publications={HOSTILE: replace(PUBLICATION, name=HOSTILE)},
        records=(record,),
        swept=hostile_sweep(),
    )
    point = HistoryPoint("2025-03-01T12:00:00Z", "a" * 40, HOSTILE)
    key = HistoryKey(case.name, case.digest, Precision.BF16, Device.CPU)
    fails = {point.commit: HistoryAnswer(fails=True, reason=HOSTILE)}
    main = MainHistory(repository=HOSTILE, points=(point,), answers={key: fails})
    rows = judged(hostile_run, case)
    render({case.name: case}, ENVIRONMENTS, rows, folder, main=main, published=published)
