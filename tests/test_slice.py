"""A slice of the real matrix: the committed evidence is the expectation.

The oldest release, one with many failures and the newest, with the whole corpus. A fresh process
per cell costs seconds, so the suite runs one cell of each case so. `nox -s tests -- -m whole`
runs every cell so (about an hour on two cores), and a random tenth of all that is published.
"""

from __future__ import annotations

import dataclasses
import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from runner import project, running
from runner.campaign import Campaign
from runner.engine.events import Terms
from runner.evidence import published
from runner.evidence.store import Store
from runner.model.outcomes import Device, Outcome, Precision
from runner.places import Places
from runner.planning.selection import Wish, environments_of, select

if TYPE_CHECKING:
    from pathlib import Path

    from runner.model.cell import Cell
    from runner.model.observation import Observation
    from runner.model.outcomes import Verdict

pytestmark = pytest.mark.builds

RELEASES = "4.49.0,4.50.0,5.23.0"

Seen = dict["Cell", tuple[Outcome, str]]
"""Every cell of the slice with its outcome and the first line of its error."""


class Nobody:
    """Watches a run and says nothing."""

    def began(self, units: int, cells: int) -> None: ...

    def phase(self, environment: str, doing: str) -> None: ...

    def measured(self, seen: Observation, verdict: Verdict) -> None: ...

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        pytest.fail(f"{environment} is unbuildable ({cells} cells): {reason}")

    def done(self, environment: str) -> None: ...


def measure(
    folder: Path,
    *,
    fork: bool = True,
    witness: bool = True,
    only: frozenset[Cell] | None = None,
    releases: str = RELEASES,
) -> Seen:
    """Run the slice, or some of it, with an empty store, in one of the ways to run a cell."""
    loaded = project.load(Places())
    terms = Terms(
        run="slice",
        limits=loaded.matrix.limits,
        device=Device.CPU,
        jobs=len(os.sched_getaffinity(0)),
        fork=fork,
        witness=witness,
    )
    selection = select(Wish(release=[releases] if releases else []), loaded.cases, loaded.names)
    selection = dataclasses.replace(selection, only=only)
    planned = Campaign(project=loaded, selection=selection, terms=terms, known={})
    store = Store(folder / "evidence.sqlite", pytest.fail)
    try:
        running.run(planned, store, Nobody(), lambda _: None)
        return {row.cell: _seen(row) for row in store.rows()}
    finally:
        store.close()


def _seen(row: Observation) -> tuple[Outcome, str]:
    return row.outcome, row.failed.headline if row.failed else ""


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return measure(tmp_path_factory.mktemp("forked"))


def _committed() -> dict[Cell, Observation]:
    """Return the published cells that a CPU ran and that are stable."""
    return {
        row.cell: row
        for row in published.read(Places().published)
        if row.cell.device is Device.CPU and row.outcome.was_run and not row.unstable
    }


def test_the_slice_gives_what_the_committed_evidence_says(forked: Seen) -> None:
    names = set(environments_of([RELEASES], project.load(Places()).names))
    committed = {
        cell: _seen(row) for cell, row in _committed().items() if cell.environment in names
    }

    assert committed == forked


@pytest.mark.whole
def test_a_random_tenth_of_the_published_cells_agrees(tmp_path: Path) -> None:
    seed = int(os.environ.get("REPRO_SEED", time.time_ns()))
    committed = {cell: _seen(row) for cell, row in _committed().items()}
    tenth = random.Random(seed).sample(sorted(committed), len(committed) // 10)  # noqa: S311
    found = measure(tmp_path, only=frozenset(tenth), releases="")

    assert {cell: committed[cell] for cell in tenth} == found, f"REPRO_SEED={seed}"


def _telling(seen: Seen) -> frozenset[Cell]:
    """Return a cell of each case and release: one that fails where there is one, else bf16's."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell, (outcome, _) in seen.items():
        key = (cell.case, cell.environment)
        telling = outcome.is_failure or cell.precision is Precision.BF16
        if key not in chosen or (telling and not seen[chosen[key]][0].is_failure):
            chosen[key] = cell
    return frozenset(chosen.values())


def test_a_fresh_process_gives_the_outcome_of_a_fork(forked: Seen, tmp_path: Path) -> None:
    cells = _telling(forked)

    assert {cell: forked[cell] for cell in cells} == measure(tmp_path, fork=False, only=cells)


@pytest.mark.whole
def test_a_fresh_process_per_cell_gives_the_same_outcomes(forked: Seen, tmp_path: Path) -> None:
    assert forked == measure(tmp_path, fork=False)


def test_the_witness_changes_no_outcome(forked: Seen, tmp_path: Path) -> None:
    assert forked == measure(tmp_path, witness=False)
