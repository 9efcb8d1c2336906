"""Read the answers of cells into results of probes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from repromatrix.runner.evidence.swept.probes import BUILD
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.sweep.cells import kind_and_probes


def records(rows: Iterable[Observation]) -> dict[ProbeKey, ProbeRecord]:
    """Return what probes found, from the cells of one release."""
    return {record.key: record for row in rows for record in read_row(row)}


def read_row(row: Observation) -> Iterator[ProbeRecord]:
    """Yield the records of a cell, first whether its architecture was built.

    Where its process did not answer, its probes are unknown.
    """
    kind, probes = kind_and_probes(row.cell.case)
    answer = _answer(row)
    if answer is None:
        for probe in probes:
            yield ProbeRecord(
                key=ProbeKey(kind, probe),
                status=ProbeStatus.UNKNOWN,
                error=row.failed.error_class if row.failed else "",
                message=row.failed.message if row.failed else "",
                why=row.described,
            )
        return
    built = answer.get("built")
    how = {"status": "fails", **built} if isinstance(built, dict) else {"status": "holds"}
    yield _record(kind, {"probe": BUILD, **how})
    for said in answer.get("probes", ()):
        yield _record(kind, said)


def _answer(row: Observation) -> dict[str, Any] | None:
    if row.outcome is not Outcome.PASSES:
        return None
    try:
        answer = json.loads(row.output)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _record(kind: str, said: Mapping[str, Any]) -> ProbeRecord:
    return ProbeRecord(
        key=ProbeKey(kind, str(said.get("probe", ""))),
        status=ProbeStatus(said["status"]),
        error=said.get("error") or "",
        message=said.get("message") or "",
        place=said.get("place") or "",
        value=said.get("value"),
        why=said.get("why") or "",
        summary=said.get("summary") or {},
    )
