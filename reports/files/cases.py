"""Every cell of a case as a table, one row per cell that was observed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reports.files.sheet import Sheet

if TYPE_CHECKING:
    from reports.files.sheet import Value
    from reports.survey import Survey
    from runner.judging.verdicts import Judged

COLUMNS = (
    *("case", "workaround", "release", "precision", "device", "outcome", "verdict", "error"),
    *("exercised", "transformers", "accelerate", "peft", "torch", "python", "source"),
    *("unstable", "stale", "simulated", "computed", "measured"),
)


def case_sheet(survey: Survey, name: str) -> Sheet:
    """Return the table of a case, in the order of its page."""
    simulated = name in survey.simulated
    rows = tuple(_row(row, simulated=simulated) for row in survey.of_case(name))
    return Sheet(path=f"case/{name}", columns=COLUMNS, rows=rows)


def _row(row: Judged, *, simulated: bool) -> tuple[Value, ...]:
    seen, ran = row.seen, row.seen.provenance
    packages = ran.packages
    return (
        *(str(part) for part in _ordered(row)),
        seen.outcome.value,
        row.verdict.value,
        seen.failed.headline if seen.failed is not None else seen.reason,
        seen.exercised.value,
        *(packages.get(name, "") for name in ("transformers", "accelerate", "peft")),
        ran.torch_build,
        ran.python,
        seen.source,
        seen.unstable,
        row.stale,
        simulated,
        json.dumps(dict(seen.computed)) if seen.computed else "",
        json.dumps(dict(seen.measured)) if seen.measured else "",
    )


def _ordered(row: Judged) -> tuple[str, ...]:
    cell = row.seen.cell
    return cell.case, cell.workaround, cell.environment, cell.precision.value, cell.device.value
