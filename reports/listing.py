"""Judged observations as rows of plain values: what `results` prints, without pandas.

A hundred thousand cells are written while pandas would still be imported.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from reports.marks import inference
from runner.judging.agreement import dispute
from runner.model.outcomes import Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from runner.judging.verdicts import Judged

Value = str | int | float | bool | None

COLUMNS = (
    "case",
    "workaround",
    "release",
    "precision",
    "device",
    "outcome",
    "verdict",
    "error",
    "exercised",
    "transformers",
    "accelerate",
    "peft",
    "torch",
    "seconds",
)
"""What `results -- --format csv` prints; other people's scripts depend on names and order."""

WIDE = (
    *("unstable", "stale", "simulated", "repeats", "source", "reason", "signature"),
    *("disputed", "inferred", "peak", "suspected"),
)
"""What `--wide` adds."""

_PLACES = {precision: place for place, precision in enumerate(Precision)}


def listed(
    judged: Iterable[Judged],
    order: Sequence[str],
    *,
    wide: bool = False,
    simulated: Collection[str] = (),
) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
    """Return the columns, and one row per judged observation; `order` is that of environments.

    `simulated` names the cases in which a stand-in keeps the contract of a real part.
    """
    rows = in_order(judged, order)
    if not wide:
        return COLUMNS, [_row(one) for one in rows]
    return (*COLUMNS, *WIDE), [(*_row(one), *_flags(one, simulated)) for one in rows]


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """Return rows as CSV; what is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def in_order(judged: Iterable[Judged], order: Sequence[str]) -> list[Judged]:
    """Sort by case, workaround, release, precision and device; unknown releases come last."""
    rank = {name: position for position, name in enumerate(order)}

    def place(row: Judged) -> tuple[str, str, int, str, int, str, str]:
        case, workaround, release, precision, device = row.seen.cell
        position = rank.get(release, len(rank))
        return case, workaround, position, release, _PLACES[precision], device, row.seen.source

    return sorted(judged, key=place)


def _row(row: Judged) -> tuple[Value, ...]:
    seen = row.seen
    case, workaround, release, precision, device = seen.cell
    ran, failed = seen.provenance, seen.failed
    package = ran.packages.get
    return (  # words of an enum as they are: they are texts, and asking for their value is slow
        case,
        workaround,
        release,
        precision,
        device,
        seen.outcome,
        row.verdict,
        "" if failed is None else failed.headline,
        seen.exercised,
        package("transformers", ""),
        package("accelerate", ""),
        package("peft", ""),
        ran.torch_build,
        seen.seconds,
    )


def _flags(row: Judged, simulated: Collection[str]) -> tuple[Value, ...]:
    seen, failed = row.seen, row.seen.failed
    return (
        seen.unstable,
        row.stale,
        seen.cell.case in simulated,
        seen.repeats,
        seen.source,
        seen.reason,
        failed.signature if failed is not None else "",
        dispute(seen),
        inference(row.inferred) if row.inferred is not None else "",
        seen.memory.peak if seen.memory is not None else None,
        row.suspected.text if row.suspected is not None else "",
    )
