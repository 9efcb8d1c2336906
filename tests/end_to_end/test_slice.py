"""A slice of the real matrix: the committed evidence is the expectation.

Of a release with many failures, a few cells that end in different ways. With `--whole` a cell of
each way, and one of each case on the oldest release or on the newest, by turns, a failing one where
there is one; then every cell of the three releases (about an hour on two cores), and a random tenth
of all that is published. Every other case is run once more in a sandbox, those between without the
witness, and every twentieth in a fresh process, which costs seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import pytest
from needs import bubblewrap
from ways import Kind, Seen, Way, differing, kind, measure

from checks import truth
from repromatrix.runner import project
from repromatrix.runner.evidence import published
from repromatrix.runner.execution.hardware import hardware
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths

pytestmark = pytest.mark.builds

FAILING, ENDS = "4.50.0", ("4.49.0", "5.23.0")
FEWER = 20
"""Of so many ways in which a case ends, one is tried by default."""
RELEASES = ",".join((FAILING, *ENDS))
LOADED = project.load(Paths())
KERNELS = "avx512_bf16"
"""What processors have whose messages were published, or stand in the cases beside them."""


def release_of(cell: Cell) -> str:
    """Return the release that a cell ran on, with whatever extras."""
    return LOADED.environments[cell.environment].column


@pytest.fixture(scope="module")
def committed() -> Seen:
    """Return what is published of all cells of the three releases."""
    every = published_cells()
    return {cell: seen for cell, seen in every.items() if release_of(cell) in {FAILING, *ENDS}}


def published_cells() -> Seen:
    """Return the published cells that a CPU ran, stably, in an environment that is pinned."""
    return {
        row.cell: kind(row)
        for row in published.read(LOADED.paths.published)
        if row.cell.device is Device.CPU
        and row.outcome.was_run
        and not row.unstable
        and LOADED.environments[row.cell.environment].source.has_lock
    }


def comparable(seen: Mapping[Cell, Kind], cases: Mapping[str, Case] = LOADED.cases) -> Seen:
    """Return cells without what the processor decides: in which of its words a case fails.

    Without kernels for bf16 there are words that no case knows, so that outcomes alone are left.
    """
    wordless = KERNELS not in hardware()
    return {
        cell: one._replace(error="" if wordless else _told(cases[cell.case], one))
        for cell, one in seen.items()
    }


def _told(case: Case, one: Kind) -> str:
    error_class, _, message = one.error.partition(": ")
    known = any(entry.has_words(error_class, message) for entry in case.block.fails)
    return "as the case says" if known else one.error


@pytest.fixture(
    scope="module",
    params=["a few", pytest.param("a cell of each way", marks=pytest.mark.whole)],
)
def chosen(request: pytest.FixtureRequest, committed: Seen) -> frozenset[Cell]:
    """Return a cell of each way in which a case ends, and one of each case at the ends; or a few.

    These are of the pinned release alone, without extras: it is the only environment they need.
    """
    ways: dict[tuple[str, Kind], Cell] = {}
    for cell in sorted(committed):
        if release_of(cell) == FAILING:
            ways.setdefault((cell.case, committed[cell]), cell)
    if request.param == "a few":
        plain = (cell for cell in ways.values() if cell.environment == FAILING)
        return frozenset(list(plain)[::FEWER])
    by_case: dict[str, list[Cell]] = {}
    for cell in sorted(truth.telling(committed)):
        if release_of(cell) in ENDS:
            by_case.setdefault(cell.case, []).append(cell)
    at_ends = (cells[turn % len(cells)] for turn, cells in enumerate(by_case.values()))
    return frozenset((*ways.values(), *at_ends))


@pytest.fixture(scope="module")
def forked(chosen: frozenset[Cell]) -> Seen:
    return measure(LOADED, Way(), only=chosen)


@pytest.fixture(scope="module")
def of_each(forked: Seen) -> dict[str, Cell]:
    """Return a cell of each case that was measured, one that fails where there is one."""
    by_outcome = sorted(forked, key=lambda cell: (forked[cell].outcome.is_failure, cell))
    return {cell.case: cell for cell in by_outcome}


def unlike(expected: Seen, measured: Seen) -> dict[Cell, tuple[Kind | None, Kind | None]]:
    """Return the cells that differ, with both sides: two whole grids are too long to read."""
    both = differing(expected, measured)
    return {cell: (expected.get(cell), measured.get(cell)) for cell in both}


def test_the_slice_gives_what_the_committed_evidence_says(
    committed: Seen, chosen: frozenset[Cell], forked: Seen
) -> None:
    expected = {cell: committed[cell] for cell in chosen}

    # Other processors fail in the same cells, some in other words.
    expected, measured = (comparable(seen) for seen in (expected, forked))
    assert unlike(expected, measured) == {}


def test_a_fresh_process_gives_the_outcome_of_a_fork(
    of_each: dict[str, Cell], forked: Seen
) -> None:
    cells = frozenset(sorted(of_each.values())[::20])  # the check `truth` tries every case
    fresh = measure(LOADED, Way(fork=False), only=cells)

    assert unlike({cell: forked[cell] for cell in cells}, fresh) == {}


@bubblewrap
def test_a_sandbox_changes_no_outcome(of_each: dict[str, Cell], forked: Seen) -> None:
    cells = frozenset(sorted(of_each.values())[::2])
    walled = measure(LOADED, Way(sandbox=True), only=cells)

    assert unlike({cell: forked[cell] for cell in cells}, walled) == {}


def test_the_witness_changes_no_outcome(of_each: dict[str, Cell], forked: Seen) -> None:
    cells = frozenset(sorted(of_each.values())[1::2])
    unwatched = measure(LOADED, Way(witness=False), only=cells)

    assert unlike({cell: forked[cell] for cell in cells}, unwatched) == {}


@pytest.mark.whole
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(Way(), id="forked"),
        pytest.param(Way(fork=False), id="fresh"),
        pytest.param(Way(witness=False), id="without the witness"),
    ],
)
def test_every_cell_of_the_three_releases_gives_what_the_committed_evidence_says(
    way: Way, committed: Seen
) -> None:
    measured = measure(LOADED, way, releases=RELEASES)
    assert unlike(comparable(committed), comparable(measured)) == {}


@pytest.mark.whole
def test_a_random_tenth_of_the_published_cells_agrees() -> None:
    every, seed = published_cells(), time.time_ns()
    drawn = random.Random(seed).sample(sorted(every), len(every) // 10)  # noqa: S311 - a sample
    found = measure(LOADED, Way(), only=frozenset(drawn))

    assert drawn
    expected = comparable({cell: every[cell] for cell in drawn})
    assert unlike(expected, comparable(found)) == {}, f"drawn by {seed}"
