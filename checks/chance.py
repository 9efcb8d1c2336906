"""Run cases that assert a number or fail silently with five seeds, where their results change.

`margins.csv` keeps the values, and `check --margins` prints how far they are from the thresholds.
A case that has not changed since its values were published is not measured again. An interrupted
check continues. A case without a threshold publishes nothing, so only this machine's store has its
results.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ways import Way, observed

from checks.table import Table
from repromatrix.runner import files, project
from repromatrix.runner.evidence import published
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.margins import NAME, MarginRow, as_text, read_margins, row_of
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.judging.margins import thresholds
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import Axes, deciding
from repromatrix.runner.project import Project

SEEDS = ("0", "1", "2", "3", "4")


def kept(loaded: Project) -> tuple[MarginRow, ...]:
    """Return the published rows of cases that are the same today."""
    digests = {name: case.digest for name, case in loaded.cases.items()}
    rows = read_margins(loaded.paths)
    return tuple(row for row in rows if digests.get(row.case) == row.case_digest)


def chosen(loaded: Project, measured: Collection[str]) -> list[Cell]:
    """Return the cells beside a change, or at an end, of the cases that chance may decide.

    Without those of cases that were `measured`.
    """
    known = {row.cell: row for row in published.read(loaded.paths.published)}
    grid = Axes(
        cases={
            name: case
            for name, case in loaded.cases.items()
            if name not in measured and (case.block.is_silent or thresholds(case.script.code))
        },
        environments={
            name: environment
            for name, environment in loaded.environments.items()
            if environment.source is not Source.MAIN
        },
        precisions=tuple(Precision),
        device=Device.CPU,
    )
    order = [*loaded.environments]
    return sorted(deciding(grid, known), key=lambda cell: (order.index(cell.environment), cell))


def rows_of(
    loaded: Project, seen: Iterable[tuple[str, Observation]]
) -> tuple[list[MarginRow], list[Cell]]:
    """Return a row for each threshold, and the cells that do otherwise with another seed."""
    by_case: defaultdict[str, list[tuple[str, Observation]]] = defaultdict(list)
    kinds: defaultdict[Cell, set[object]] = defaultdict(set)
    for seed, row in seen:
        by_case[row.cell.case].append((seed, row))
        # What a message says of its numbers may differ; whether it fails, and with what, may not.
        kinds[row.cell].add((row.outcome, row.failed.error_class if row.failed else ""))
    rows = []
    for name, mine in by_case.items():
        case = loaded.cases[name]
        rows += [row_of(case, threshold, mine) for threshold in thresholds(case.script.code)]
    return rows, sorted(cell for cell, found in kinds.items() if len(found) > 1)


def seen_of(loaded: Project, cells: Sequence[Cell]) -> Iterator[tuple[str, Observation]]:
    """Yield what cells do with each seed; each is kept at once, and not run again if it is there.

    In a store per seed, as no row says with which it was measured. Cells come by environment.
    """
    for seed in SEEDS:
        with closing(Store(store_of(loaded.paths, seed), print)) as store:
            rows, _ = current(store.rows(), loaded.cases, loaded.environments)
            known = {cell: rows[cell] for cell in cells if cell in rows}
            left = [cell for cell in cells if cell not in rows]
            print(f"  seed {seed}: {len(left)} of {len(cells)} cells are to be run", flush=True)
            for row in observed(loaded, left, loaded.cases, Way(seed=seed)):
                store.put(row)
                known[row.cell] = row
        yield from ((seed, row) for row in known.values() if row.outcome != Outcome.NOT_APPLICABLE)


def store_of(paths: Paths, seed: str) -> Path:
    """Return where it is kept what cells did with a seed, so that only changed cases run again."""
    return paths.store.with_name(f"chance-{seed}-{paths.store.name}")


def check(table: Table, _options: argparse.Namespace) -> None:
    """Run the cells once with each seed, and write how far off the thresholds they stand."""
    loaded = project.load(Paths())
    before = kept(loaded)
    cells = chosen(loaded, {row.case for row in before})
    seen = list(seen_of(loaded, cells))
    found, by_chance = rows_of(loaded, seen)
    rows = [*before, *found]
    files.write(loaded.paths.published / NAME, as_text(rows))
    shown = ", ".join(" ".join(filter(None, cell[:4])) for cell in by_chance[:5])
    same = f"and {len({row.case for row in before})} cases are as they were"
    table.count(
        f"cells with {len(SEEDS)} seeds each",
        len({row.cell for _, row in seen}),
        "cells that do otherwise with another seed",
        len(by_chance),
        "; ".join(filter(None, (shown, same))),
    )
    narrow = [f"{row.case}: {row.threshold}" for row in rows if row.is_narrow]
    table.count(
        "thresholds",
        len(rows),
        "nearer than 3 times to what was measured",
        len(narrow),
        "; ".join(narrow),
    )
