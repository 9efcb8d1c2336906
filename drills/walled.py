"""A release with a sandbox and without: that it changes no outcome, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shared

from drills import cells

if TYPE_CHECKING:
    from drills.tally import Tally
    from repromatrix.runner.model.observation import Observation


def drill(tally: Tally) -> None:
    """Run every cell of a release both ways, with empty stores."""
    release = ["--release", cells.RELEASE, "--rerun", "--jobs", "2"]
    walled, open_ = (shared.matrix(*release, way) for way in ("--sandbox", "--no-sandbox"))
    first, second = ({row.cell: _seen(row) for row in run.rows} for run in (walled, open_))
    changed = [cell for cell in first.keys() | second.keys() if first.get(cell) != second.get(cell)]
    cost = (walled.seconds - open_.seconds) * 1000 / max(1, len(first))
    note = f"{walled.seconds:.0f} s against {open_.seconds:.0f} s: {cost:.0f} ms per cell"
    tally.count(
        "cells run with a sandbox and without", len(first), "outcomes changed", len(changed), note
    )


def _seen(row: Observation) -> tuple[str, str, str]:
    return row.outcome, row.failed.signature if row.failed else "", row.exercised
