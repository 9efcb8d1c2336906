"""How far what is measured stands off what a case asserts."""

from __future__ import annotations

import dataclasses
import math

import pytest
from factories import cell, seen

from repromatrix.runner.judging.margins import Extreme, Margin, Threshold, margins, thresholds
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
    bf16, fp16 = cell(precision=Precision.BF16), cell(precision=Precision.FP16)
    rows = [
        (seed, dataclasses.replace(seen(Outcome.PASSES, at), measured={"error": value}))
        for seed, at, value in (
            ("0", bf16, 0.6),
            ("1", bf16, 0.24),
            ("0", fp16, 0.001),
            ("1", fp16, 0.015),
        )
    ]

    (found,) = margins([ERROR], [*rows, ("0", seen(Outcome.FAILS, cell("4.51.0")))])

    assert found == Margin(
        ERROR,
        Extreme(0.015, ERROR.times_off(0.015), fp16, "1"),
        Extreme(0.24, ERROR.times_off(0.24), bf16, "1"),
    )
    assert margins([ERROR], []) == (Margin(ERROR, None, None),)
