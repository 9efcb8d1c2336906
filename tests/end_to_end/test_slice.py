"""A slice of the real matrix: the committed evidence is the expectation.

The oldest release, one with many failures and the newest, with the whole corpus. A fresh process
per cell costs seconds, so the suite runs one cell of each case so. `nox -s tests -- -m whole`
runs every cell so (about an hour on two cores), and a random tenth of all that is published.
"""

from __future__ import annotations

import pytest
from needs import bubblewrap

from drills import truth
from drills.ways import Seen, Way, measure
from repromatrix.runner import project
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import environments_of

pytestmark = pytest.mark.builds

RELEASES = "4.49.0,4.50.0,5.23.0"
LOADED = project.load(Paths())


@pytest.fixture(scope="module")
def forked() -> Seen:
    return measure(LOADED, Way(), releases=RELEASES)


def test_the_slice_gives_what_the_committed_evidence_says(forked: Seen) -> None:
    names = set(environments_of([RELEASES], LOADED.names))
    committed = {
        cell: seen for cell, seen in truth.committed(LOADED).items() if cell.environment in names
    }

    assert committed == forked


@pytest.mark.whole
def test_a_random_tenth_of_the_published_cells_agrees() -> None:
    found = truth.again(LOADED)

    assert (found.times > 0, found.cells) == (True, ()), found.note


def test_a_fresh_process_gives_the_outcome_of_a_fork(forked: Seen) -> None:
    cells = truth.telling(forked)
    fresh = measure(LOADED, Way(fork=False), releases=RELEASES, only=cells)

    assert {cell: forked[cell] for cell in cells} == fresh


@bubblewrap
def test_a_sandbox_changes_no_outcome(forked: Seen) -> None:
    cells = truth.telling(forked)
    walled = measure(LOADED, Way(sandbox=True), releases=RELEASES, only=cells)

    assert {cell: forked[cell] for cell in cells} == walled


@pytest.mark.whole
def test_a_fresh_process_per_cell_gives_the_same_outcomes(forked: Seen) -> None:
    assert forked == measure(LOADED, Way(fork=False), releases=RELEASES)


def test_the_witness_changes_no_outcome(forked: Seen) -> None:
    assert forked == measure(LOADED, Way(witness=False), releases=RELEASES)
