"""What the page that compares two releases looks up, beside the comparison itself."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
import small_site
from one_case import fake_run, observed, surveyed

from repromatrix.reports.pages.compare import compare_data
from repromatrix.reports.sections.release_changes import compared, sides
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.text import join

if TYPE_CHECKING:
    from repromatrix.reports.view import Survey
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

Row = tuple[str, str, str, str, str, str, str]


def at(said: tuple[int, ...], place: int) -> int:
    """Return the number that stands at a place of a folded row."""
    return [
        number for count, number in zip(said[::2], said[1::2], strict=True) for _ in range(count)
    ][place]


def looked_up(data: dict[str, Any], before: str, after: str) -> tuple[list[Row], int]:
    """Return the differences as the page finds them, and how many cells say nothing."""
    places = [data["releases"].index(release) for release in (before, after)]
    alike: dict[tuple[str, ...], list[str]] = {}
    unknown = 0
    for case in data["cases"]:
        for row in case["rows"]:
            one, other = (data["said"][at(row["said"], place)] for place in places)
            change = data["changes"][one[0]][other[0]][one[1] != other[1]]
            unknown += change == CellChange.UNKNOWN
            if change in data["order"]:
                variant = row["workaround"], row["device"].value
                key = change, case["name"], *variant, one[2], other[2]
                alike.setdefault(key, []).append(row["precision"].value)
    rows = [
        (change, case, workaround, join(found), device, one, other)
        for (change, case, workaround, device, one, other), found in alike.items()
    ]
    return sorted(rows), unknown


def told(survey: Survey, before: str, after: str) -> tuple[list[Row], int]:
    """Return the same as the pages of releases and `changes_table` have it."""
    by_release = sides(survey)
    found = compared(survey, before, by_release[before], by_release[after])
    rows = [
        (
            *(one.change.value, one.case, one.workaround),
            *(one.precisions, one.device, one.before, one.after),
        )
        for one in found.differences
    ]
    return sorted(rows), found.unknown


@pytest.mark.parametrize("found", [surveyed(), small_site.surveyed()], ids=["one case", "small"])
def test_what_is_looked_up_is_what_the_comparison_says(found: Survey) -> None:
    data = compare_data(found)
    pairs = list(permutations(found.releases, 2))

    assert {pair: looked_up(data, *pair) for pair in pairs} == {
        pair: told(found, *pair) for pair in pairs
    }


def test_a_case_that_fails_alike_on_both_sides_is_named_and_no_difference() -> None:
    def run(cell: Cell) -> Observation | None:
        bad = cell.environment == "4.51.0" and cell.precision is Precision.FP16
        return observed(cell, Outcome.CRASHES) if bad else fake_run(cell)

    data = compare_data(surveyed(run))
    row = next(row for row in data["cases"][0]["rows"] if row["precision"] is Precision.BF16)
    one, other = (data["said"][at(row["said"], place)] for place in (1, 2))

    assert one == other
    assert data["changes"][one[0]][other[0]] == ("both", "changed")
    assert [*data["titles"]] == ["broke", "fixed", "changed", "both", "new", "gone"]
