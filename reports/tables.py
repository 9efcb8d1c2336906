"""Judged observations as tidy pandas frames: one row per cell, and the totals made from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd

from reports.listing import listed
from reports.marks import Mark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from reports.marks import Seen
    from runner.judging.verdicts import Judged
    from runner.model.cell import Cell

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
    columns, rows = listed(judged, order, wide=wide, simulated=simulated)
    frame = pd.DataFrame.from_records(rows, columns=[*columns])
    return frame.astype({"seconds": "float64"})


def as_json(frame: pd.DataFrame) -> str:
    """Return a frame as its columns and its rows, each name written once; unknown is null."""
    known = frame.astype(object).where(frame.notna(), None)
    content = {"columns": [*known.columns], "rows": known.to_numpy().tolist()}
    # Not by pandas, which refuses the halves of characters that a case may print.
    return json.dumps(content, separators=(",", ":"))


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
