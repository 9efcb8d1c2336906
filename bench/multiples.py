"""What people wait for, in multiples of one import of torch and transformers: a release, a coarse
table, a new case. Environments are built; the store is empty.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import shared

from repromatrix.runner import project
from repromatrix.runner.model.cell import Source
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from shared import Prepared, Row

    from repromatrix.runner.project import Project

NEW = "bert_new_head_uninitialised"
"""A case of ordinary cost that applies everywhere."""
EVERY = 10


def measure(row: Row) -> None:
    """Measure each, with imports before and after; `row` prints one number."""
    loaded = project.load(Paths())
    releases = [
        name
        for name, one in loaded.environments.items()
        if one.source is Source.RELEASE and "+" not in name
    ]
    shared.prepared(loaded, releases)
    newest = shared.prepared(loaded, [releases[-1]])
    imports = [_import(loaded, newest) for _ in range(3)]
    whole = shared.matrix("--release", releases[-1])
    coarse = shared.matrix("--release", ",".join(releases[::-EVERY]))
    new = shared.matrix("--release", ",".join(releases), "--case", NEW)
    imports += [_import(loaded, newest) for _ in range(3)]
    one = statistics.median(imports)
    row("one import", one, "s", f"torch, transformers and what the cases take, {releases[-1]}")
    for what, run, wanted in (
        (f"the whole corpus on {releases[-1]}", whole, 8),
        (f"the whole corpus on every {EVERY}th release", coarse, 60),
        (f"a new case on {len(releases)} releases", new, 100),
    ):
        times = run.seconds / one
        note = f"{run.seconds:.0f} s, {len(run.rows)} cells; wanted: at most {wanted}"
        row(what, times, "times", note)
    minutes = coarse.seconds / 60 * len(releases) / len(releases[::-EVERY])
    note = f"from every {EVERY}th; building environments comes on top; wanted: at most 120"
    row(f"the whole corpus on {len(releases)} releases", minutes, "minutes", note)


def _import(loaded: Project, newest: list[Prepared]) -> float:
    return shared.floor(newest[0].built, loaded.cases.values())[0]
