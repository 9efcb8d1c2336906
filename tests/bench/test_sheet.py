"""The figures of the bench, put into their place in the document."""

from pathlib import Path

import pytest
from sheet import Sheet, machine

PAGE = """# Performance

Before.
<!-- bench: corpus -->
old
<!-- end -->
Between.
<!-- bench: site -->
kept
<!-- end -->
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "performance.md"
    path.write_text(PAGE)
    return path


def test_a_table_takes_the_place_of_the_old_one_and_of_nothing_else(page: Path) -> None:
    sheet = Sheet("corpus", page)
    sheet.row("runner / floor", 1.1, "times", "wanted: at most 1.15")
    sheet.row("cells", 1077, "cells")

    assert sheet.write()
    table = (
        f"{machine()}\n\n| what | measured | note |\n| --- | ---: | --- |\n"
        "| runner / floor | 1.10 times | wanted: at most 1.15 |\n| cells | 1,077 cells |  |"
    )
    assert page.read_text() == PAGE.replace("old", table)


def test_a_part_without_a_place_writes_nothing(page: Path) -> None:
    assert not Sheet("answers", page).write()
    assert page.read_text() == PAGE
