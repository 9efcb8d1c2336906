"""Judged observations as tidy pandas frames: one row per cell, and the totals made from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from reports.marks import Mark, inference
from runner.judging.agreement import dispute
from runner.model.outcomes import Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from reports.marks import Seen
    from runner.judging.verdicts import Judged
    from runner.model.cell import Cell

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
    *("disputed", "inferred"),
)
"""What `--wide` adds."""

FLAGS = ("stale", "simulated")
"""What may be said of a cell beside its mark."""


def tabulate(
    judged: Iterable[Judged],
    order: Sequence[str],
    *,
    wide: bool = False,
    simulated: Collection[str] = (),
) -> pd.DataFrame:
    """Return one row per judged observation; `order` is that of environments, oldest first.

    `simulated` names the cases in which a stand-in keeps the contract of a real part.
    """
    columns = [*COLUMNS, *WIDE] if wide else [*COLUMNS]
    records = [_record(row, simulated) for row in in_order(judged, order)]
    frame = pd.DataFrame.from_records(records, columns=[*COLUMNS, *WIDE])
    return frame.astype({"seconds": "float64"})[columns]


def as_json(frame: pd.DataFrame) -> str:
    """Return a frame as its columns and its rows, each name written once; unknown is null."""
    known = frame.astype(object).where(frame.notna(), None)
    content = {"columns": [*known.columns], "rows": known.to_numpy().tolist()}
    # Not by pandas, which refuses the halves of characters that a case may print.
    return json.dumps(content, separators=(",", ":"))


def in_order(judged: Iterable[Judged], order: Sequence[str]) -> list[Judged]:
    """Sort by case, workaround, release, precision and device; unknown releases come last."""
    rank = {name: position for position, name in enumerate(order)}
    precisions = list(Precision)

    def place(row: Judged) -> tuple[str, str, int, str, int, str, str]:
        case, workaround, release, precision, device = row.seen.cell
        position = rank.get(release, len(rank))
        return (
            case,
            workaround,
            position,
            release,
            precisions.index(precision),
            device,
            row.seen.source,
        )

    return sorted(judged, key=place)


def _record(row: Judged, simulated: Collection[str]) -> dict[str, Any]:
    seen = row.seen
    packages = seen.provenance.packages
    return _cell(seen.cell) | {
        "outcome": seen.outcome.value,
        "verdict": row.verdict.value,
        "error": seen.failed.headline if seen.failed is not None else "",
        "exercised": seen.exercised.value,
        "transformers": packages.get("transformers", ""),
        "accelerate": packages.get("accelerate", ""),
        "peft": packages.get("peft", ""),
        "torch": seen.provenance.torch_build,
        "seconds": seen.seconds,
        "unstable": seen.unstable,
        "stale": row.stale,
        "simulated": seen.cell.case in simulated,
        "repeats": seen.repeats,
        "source": seen.source,
        "reason": seen.reason,
        "signature": seen.failed.signature if seen.failed is not None else "",
        "disputed": dispute(seen),
        "inferred": inference(row.inferred) if row.inferred is not None else "",
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "case": cell.case,
        "workaround": cell.workaround,
        "release": cell.environment,
        "precision": cell.precision.value,
        "device": cell.device.value,
    }


def marks(
    cells: Sequence[Cell], shown: Sequence[Seen], simulated: Collection[str] = ()
) -> pd.DataFrame:
    """Return one row per cell of the table with its mark and flags; `shown` goes with `cells`."""
    # Column by column: a record per cell costs ten times as much.
    return pd.DataFrame(
        {
            "device": [cell.device.value for cell in cells],
            "mark": [seen.mark.value for seen in shown],
            "stale": [seen.stale for seen in shown],
            "simulated": [cell.case in simulated for cell in cells],
        }
    )


def totals(frame: pd.DataFrame, devices: Sequence[str]) -> pd.DataFrame:
    """Count the marks (rows, all of them) of every device (columns) in a frame of marks."""
    counts = pd.crosstab(frame["mark"], frame["device"])
    return counts.reindex(index=[mark.value for mark in Mark], columns=[*devices], fill_value=0)


def flagged(frame: pd.DataFrame, devices: Sequence[str]) -> pd.DataFrame:
    """Count the cells that carry each flag (rows) on every device (columns)."""
    counts = frame.groupby("device")[[*FLAGS]].sum().T
    return counts.reindex(index=[*FLAGS], columns=[*devices], fill_value=0)
