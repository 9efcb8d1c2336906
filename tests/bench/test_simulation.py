"""The model of planner and engine: what it must say whatever the costs are."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation import Costs, Work, grid, simulate, table

COSTS = Costs(begin=4.0, build=2.0, fork=0.02, driver=0.0005, cells=(0.1, 0.2, 0.6))
WORKS = st.lists(
    st.builds(
        Work,
        begin=st.floats(min_value=0, max_value=9),
        cells=st.lists(st.floats(min_value=0, max_value=2), max_size=9).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(WORKS, st.integers(min_value=1, max_value=30))
def test_no_run_is_shorter_than_its_longest_unit_or_its_share_of_the_work(
    works: list[Work], workers: int
) -> None:
    found = simulate(works, workers)
    share = sum(one.seconds for one in works) / workers
    longest = max(one.seconds for one in works)

    assert found.wall >= max(share, longest) - 1e-6
    # Whoever is free begins the next one: never worse than both together.
    assert found.wall <= share + longest + 1e-6


@given(WORKS, st.integers(min_value=1, max_value=30), st.floats(min_value=0.001, max_value=1))
def test_the_driver_hears_every_cell_and_only_adds_time(
    works: list[Work], workers: int, driver: float
) -> None:
    alone, heard = simulate(works, workers), simulate(works, workers, driver)
    cells = sum(len(one.cells) for one in works)

    assert heard.wall >= alone.wall
    assert heard.wall >= cells * driver * 0.99 - driver
    assert heard.wall <= alone.wall + cells * driver + 1e-6


def test_what_takes_no_time_is_still_heard() -> None:
    assert simulate([Work(begin=0.0, cells=(0.0, 0.0, 0.0, 0.0))], 1, 0.5).wall == 2.0


def test_one_worker_does_one_thing_after_the_other() -> None:
    works = [Work(begin=1.0, cells=(1.0, 2.0)), Work(begin=3.0, cells=())]

    assert simulate(works, 1).wall == 7.0
    assert simulate(works, 1).efficiency == pytest.approx(3 / 7)
    assert simulate(works, 2).wall == 4.0


def test_splitting_loses_no_cell_and_pays_an_import_per_part() -> None:
    whole, split = grid(COSTS, split=False), grid(COSTS, split=True)

    assert len(whole) == 1200
    assert sum(len(one.cells) for one in whole) == sum(len(one.cells) for one in split) == 3_600_000
    assert len(split) == 5 * len(whole)
    assert {one.begin for one in (*whole, *split)} == {6.0}


def test_more_workers_than_environments_help_only_where_these_are_split() -> None:
    whole, split = grid(COSTS, split=False), grid(COSTS, split=True)
    few, many = (simulate(whole, count).wall for count in (1200, 4096))

    assert few == many
    assert simulate(split, 4096).wall < many / 2


def test_a_slow_driver_is_what_limits() -> None:
    slow = dataclasses.replace(COSTS, driver=0.05)
    found = simulate(grid(slow, split=True), 4096, slow.driver)

    assert found.limit == "the driver's rate"
    assert found.driver == pytest.approx(1, abs=0.05)


def test_the_table_has_a_row_per_number_of_workers_and_way() -> None:
    rows = list(table(COSTS, (1, 256)))

    assert [what for what, _, _, _ in rows] == [
        *("1 worker", "1 worker, split"),
        *("256 workers", "256 workers, split"),
    ]
    assert rows[0][1] > 100 * rows[2][1]
