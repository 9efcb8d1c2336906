"""What a check counts and measures, put into its place in a document."""

from pathlib import Path

import pytest

from checks.table import Table

PAGE = """# Reliability

<!-- check: kill -->
old
<!-- end -->
Between.
<!-- check: store -->
<!-- end -->
"""


def test_a_table_takes_the_place_of_the_old_one_and_of_nothing_else(tmp_path: Path) -> None:
    pages = [tmp_path / "reliability.md", tmp_path / "performance.md"]
    for page, text in zip(pages, (PAGE, "# Performance\n"), strict=True):
        page.write_text(text)
    table = Table("kill")
    table.count("kills", 1200, "cells lost", 0, "seed 7")
    table.count("kills", 1200, "cells doubled", 0)
    table.count("kills", 1200, "processes left", 2)
    table.row("a cell", 2.5, "ms")

    assert table.write(pages)
    head, _, text = pages[0].read_text().partition("old")[0].partition("kill -->\n")
    day, counts, figures = text.partition("\n<!-- end -->")[0].split("\n\n")
    assert day.endswith("CPU only.")
    assert counts.splitlines()[2] == "| kills | 1,200 | cells lost; cells doubled | 0 | seed 7 |"
    assert counts.splitlines()[3] == "| kills | 1,200 | processes left | 2 |  |"
    assert figures.splitlines()[2] == "| a cell | 2.50 ms |  |"
    assert pages[0].read_text() == PAGE.replace("old", f"{day}\n\n{counts}\n\n{figures}")
    assert head == PAGE.partition("kill -->\n")[0]
    assert pages[1].read_text() == "# Performance\n"
    assert not Table("truth").write(pages)


@pytest.mark.parametrize(
    ("counts", "passed"),
    [
        ([], False),
        ([(3, 0), (0, 0)], False),
        ([(3, 0), (3, 1)], False),
        ([(3, 0), (3, 0)], True),
    ],
)
def test_a_check_passes_where_all_was_tried_and_nothing_went_wrong(
    *, counts: list[tuple[int, int]], passed: bool
) -> None:
    table = Table("kill")
    for times, found in counts:
        table.count("kills", times, "cells lost", found)

    assert table.passed == passed
