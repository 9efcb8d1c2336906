"""What a failure costs, on the page of its case."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from one_case import CASE, fake_run, surveyed

from repromatrix.reports.sections.impact import ImpactLine, impact
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.impact import Impact
from repromatrix.runner.model.observation import Observation

COSTS = {"4.50.0": (0.31, 1.0), "4.50.1": (0.394, 0.25), "4.51.0": (0.002, 0.0)}


def costly(cell: Cell) -> Observation | None:
    seen = fake_run(cell)
    if seen is None or cell.environment not in COSTS:
        return seen
    logits, changed = COSTS[cell.environment]
    measured = {"logits_relative_error": logits, "tokens_changed": changed, "error": 0.5}
    return replace(seen, measured=measured)


def test_the_cost_is_told_where_the_plain_case_fails_and_where_it_passes() -> None:
    assert impact(surveyed(costly), CASE) == (
        ImpactLine(
            precisions="bf16",
            device="cpu",
            what="relative error of the logits",
            failing="0.31 to 0.39",
            passing="0.002",
        ),
        ImpactLine(
            precisions="bf16",
            device="cpu",
            what="tokens that change",
            failing="25 % to 100 %",
            passing="0 %",
        ),
    )


def test_a_case_that_measures_no_cost_has_none() -> None:
    assert impact(surveyed(), CASE) == ()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.5, 0.5, "0.5"), (0.1, math.nan, "0.1 to not finite"), (math.inf, math.inf, "not finite")],
)
def test_equal_ends_are_told_once_and_what_is_not_finite_in_words(
    low: float, high: float, expected: str
) -> None:
    assert Impact.LOGITS.told(low, high) == expected
