"""How far what is measured stands off what a case asserts."""

from __future__ import annotations

import dataclasses
import math

import pytest
from factories import case, cell, seen

from repromatrix.runner.evidence.margins import row_of
from repromatrix.runner.judging.margins import Threshold, thresholds
from repromatrix.runner.model.outcomes import Outcome, Precision

ERROR = Threshold("error", below=True, limit=0.06)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('assert measured["error"] < 0.06, "far off"', (ERROR,)),
        ('assert 0.06 >= measured["error"]', (ERROR,)),
        (
            'assert 0.5 < measured["spread"] < 2',
            (Threshold("spread", below=False, limit=0.5), Threshold("spread", below=True, limit=2)),
        ),
        ('assert x.isfinite() and measured["error"] < 0.06', (ERROR,)),
        ('assert measured["error"] == 0', ()),
        ('assert measured["share"] > 0', ()),
        ('assert not measured["error"]', ()),
        ("assert error < 0.06", ()),
        ('measured["error"] < 0.06', ()),
    ],
)
def test_a_threshold_is_what_a_measured_quantity_is_held_against(
    line: str, expected: tuple[Threshold, ...]
) -> None:
    assert thresholds(f"{line}\n") == expected


@pytest.mark.parametrize(
    ("value", "holds", "times_off"),
    [(0.02, True, 3.0), (0.18, False, 3.0), (0.0, True, math.inf), (math.nan, False, math.inf)],
)
def test_a_value_stands_so_many_times_off(value: float, times_off: float, *, holds: bool) -> None:
    assert ERROR.holds(value) is holds
    assert math.isclose(ERROR.times_off(value), times_off)


def test_the_nearest_value_on_each_side_counts_whatever_the_seed() -> None:
    toy = case()
    measured = {"bf16": {"0": 0.6, "1": 0.24}, "fp16": {"0": 0.001, "1": 0.015}}
    rows = [
        (seed, dataclasses.replace(seen(Outcome.PASSES, at), measured={"error": value}))
        for precision, values in measured.items()
        for at in [cell(precision=Precision(precision))]
        for seed, value in values.items()
    ]
    found = row_of(toy, ERROR, [*rows, ("0", seen(Outcome.FAILS, cell("4.51.0")))])

    assert found[2:5] == ("error < 0.06", "0 1", "2")
    assert found[5:] == (
        *("0.015", "4.00", "fp16 on 4.50.0, seed 1"),
        *("0.24", "4.00", "bf16 on 4.50.0, seed 1"),
    )
    assert row_of(toy, ERROR, [])[4:] == ("0", *("",) * 6)
