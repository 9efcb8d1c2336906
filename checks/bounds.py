"""Run each case once below its lower bound, and on each release that its requirements exclude.

A case that fails there as described has a requirement that hides how long the bug has been there.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator

from packaging.specifiers import SpecifierSet
from ways import observed

from checks.table import Table
from repromatrix.runner import files, project
from repromatrix.runner.evidence import bounds
from repromatrix.runner.evidence.bounds import BoundRow
from repromatrix.runner.judging.verdicts import described
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Source, obstacles
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.packages import MOVED
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project


def unbound(case: Case) -> Case:
    """Return a case that takes any version of the packages under test."""
    dependencies = []
    for needed in case.head.dependencies:
        free = type(needed)(str(needed))
        if needed.name in MOVED:
            free.specifier = SpecifierSet()
        dependencies.append(free)
    head = case.head.model_copy(update={"dependencies": tuple(dependencies)})
    return dataclasses.replace(case, head=head)


def kept_out(loaded: Project, case: Case) -> list[str]:
    """Return the release below the first on which a case can run, and those left out above it."""
    free = unbound(case)
    able, out = [], []
    for name, environment in loaded.environments.items():
        if environment.source is not Source.RELEASE or "+" in name:
            continue
        if not obstacles(case, environment, Device.CPU):
            able.append(name)
        elif not obstacles(free, environment, Device.CPU):
            out.append(name)
    order = [*loaded.environments]
    if not able:
        return []
    first = order.index(able[0])
    below = [name for name in out if order.index(name) < first]
    return [*below[-1:], *(name for name in out if order.index(name) > first)]


def measured(loaded: Project) -> Iterator[Observation]:
    """Yield the plain cells outside the requirements of each case; raises UnbuiltError."""
    cells = [
        Cell(case.name, PLAIN, name, precision, Device.CPU)
        for case in loaded.cases.values()
        for name in kept_out(loaded, case)
        for precision in Precision
    ]
    order = [*loaded.environments]
    cells.sort(key=lambda cell: (order.index(cell.environment), cell))
    free = {name: unbound(case) for name, case in loaded.cases.items()}
    yield from observed(loaded, cells, free)


def judged(loaded: Project, seen: Iterable[Observation]) -> tuple[BoundRow, ...]:
    """Return what was seen, with whether it is the failure that the case describes."""
    return tuple(
        BoundRow(
            case=row.cell.case,
            case_digest=loaded.cases[row.cell.case].digest,
            environment=row.cell.environment,
            precision=row.cell.precision,
            outcome=row.outcome,
            error=row.headline if row.failed else "",
            hides="yes" if _is_described(loaded.cases[row.cell.case], row) else "",
        )
        for row in seen
    )


def _is_described(case: Case, row: Observation) -> bool:
    entries = [entry for entry in case.block.fails if row.cell.precision in entry.precisions]
    return any(described(entry, row) for entry in entries)


def check(table: Table, _options: argparse.Namespace) -> None:
    """Run every case where its requirements keep it out, and write what it did there."""
    loaded = project.load(Paths())
    rows = judged(loaded, measured(loaded))
    files.write(loaded.paths.published / bounds.NAME, bounds.as_text(rows))
    ran = [row for row in rows if row.outcome != Outcome.NOT_APPLICABLE]
    hiding = sorted({f"{row.case} on {row.environment}" for row in ran if row.hides})
    # What is laid on top of releases has environments only where the case can run.
    untried = sorted(name for name, case in loaded.cases.items() if case.extras)
    note = f"{', '.join(hiding) or 'none'}; not tried: {', '.join(untried) or 'none'}"
    what = "cells outside the requirements of a case"
    table.count(what, len(ran), "cases that fail there as described", len(hiding), note)
