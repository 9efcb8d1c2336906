"""Every cell of a case as a table, one row per cell that was observed."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from reports.files.sheet import Sheet
from reports.marks import inference

if TYPE_CHECKING:
    from reports.files.sheet import Value
    from reports.survey import Survey
    from runner.judging.verdicts import Judged

COLUMNS = (
    *("case", "workaround", "release", "precision", "device", "outcome", "verdict", "error"),
    *("exercised", "transformers", "accelerate", "peft", "torch", "python", "source"),
    *("unstable", "stale", "simulated", "computed", "measured", "inferred"),
)


def case_sheet(survey: Survey, name: str) -> Sheet:
    """Return the table of a case, in the order of its page."""
    simulated = name in survey.simulated
    rows = tuple(_row(row, simulated=simulated) for row in survey.of_case(name))
    return Sheet(path=f"case/{name}", columns=COLUMNS, rows=rows)


def _row(row: Judged, *, simulated: bool) -> tuple[Value, ...]:
    # An enum of texts is a text; to ask each for its value costs as much as all the rest.
    seen, ran = row.seen, row.seen.provenance
    packages = ran.packages
    name, workaround, environment, precision, device = seen.cell
    return (
        name,
        workaround,
        environment,
        precision,
        device,
        seen.outcome,
        row.verdict,
        seen.failed.headline if seen.failed is not None else seen.reason,
        seen.exercised,
        packages.get("transformers", ""),
        packages.get("accelerate", ""),
        packages.get("peft", ""),
        ran.torch_build,
        ran.python,
        seen.source,
        seen.unstable,
        row.stale,
        simulated,
        _numbers(tuple(seen.computed.items())) if seen.computed else "",
        _numbers(tuple(seen.measured.items())) if seen.measured else "",
        inference(row.inferred) if row.inferred is not None else "",
    )


# Neighbouring releases count and measure the same.
@lru_cache(maxsize=4096)
def _numbers(found: tuple[tuple[str, float], ...]) -> str:
    return json.dumps(dict(found))
