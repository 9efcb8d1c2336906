"""The counts of the drills, put into their place in the document."""

from pathlib import Path

import pytest

from drills.tally import Tally

PAGE = """# Reliability

Before.
<!-- drill: kill -->
old
<!-- end -->
Between.
<!-- drill: store -->
kept
<!-- end -->
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "reliability.md"
    path.write_text(PAGE)
    return path


def test_counts_take_the_place_of_the_old_ones_and_of_nothing_else(page: Path) -> None:
    tally = Tally("kill", page)
    tally.count("kills of the runner", 1200, "cells lost", 0, "seed 7")
    table = (
        "| tried | times | must not happen | times | note |\n"
        "| --- | ---: | --- | ---: | --- |\n"
        "| kills of the runner | 1,200 | cells lost | 0 | seed 7 |"
    )
    assert tally.write()
    assert page.read_text() == PAGE.replace("old", table)


def test_where_a_part_is_run_again_the_counts_of_the_rest_stay(page: Path) -> None:
    for times, part in ((1, ("nox", "cells")), (2, ("cells", "workers"))):
        tally = Tally("kill", page)
        tally.is_part = times > 1
        for killed in part:
            tally.count(f"kills of {killed}", times, "cells lost", 0)
        tally.write()

    table = (
        "| tried | times | must not happen | times | note |\n"
        "| --- | ---: | --- | ---: | --- |\n"
        "| kills of nox | 1 | cells lost | 0 |  |\n"
        "| kills of cells | 2 | cells lost | 0 |  |\n"
        "| kills of workers | 2 | cells lost | 0 |  |"
    )
    assert page.read_text() == PAGE.replace("old", table)


def test_a_drill_without_a_place_writes_nothing(page: Path) -> None:
    tally = Tally("network", page)
    tally.count("indexes", 1, "results", 0)
    assert not tally.write()
    assert page.read_text() == PAGE


@pytest.mark.parametrize(
    ("counts", "passed"),
    [
        ([], False),
        ([(0, 0)], False),
        ([(3, 0), (0, 0)], False),
        ([(3, 0), (3, 1)], False),
        ([(3, 0), (3, 0)], True),
    ],
)
def test_a_drill_passes_where_all_was_tried_and_nothing_went_wrong(
    page: Path, *, counts: list[tuple[int, int]], passed: bool
) -> None:
    tally = Tally("kill", page)
    for times, found in counts:
        tally.count("kills", times, "cells lost", found)
    assert tally.passed == passed
