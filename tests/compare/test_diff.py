"""What differs between two sides, cell by cell."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, failed, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.compare.diff import (
    CellChange,
    CellDifference,
    answer,
    change,
    compare,
    without_environment,
)
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision, Reading

if TYPE_CHECKING:
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

TOY = case(BREAKS)
CASES = {TOY.name: TOY}

PASSES = seen(Outcome.PASSES)
FAILS = seen(Outcome.FAILS)
OTHERWISE = seen(Outcome.FAILS, how=failed("KeyError", "elsewhere"))
CRASHES = seen(Outcome.CRASHES)
TIMES_OUT = seen(Outcome.TIMES_OUT)
NEVER = seen(Outcome.PASSES, exercised=Exercised.NO)
DECLINES = seen(Outcome.DECLINES)
FULL = seen(Outcome.OUT_OF_MEMORY)
UNBUILT = seen(Outcome.UNBUILDABLE)
REFUSED = seen(Outcome.NOT_RUN)
UNSTABLE = seen(Outcome.FAILS, unstable=True)
ABSENT = seen(Outcome.NOT_APPLICABLE)
EVERY = (
    *(None, PASSES, FAILS, OTHERWISE, CRASHES, TIMES_OUT, NEVER, DECLINES, FULL, UNBUILT, REFUSED),
    *(UNSTABLE, ABSENT),
)
ANY = st.sampled_from(EVERY)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (PASSES, FAILS, CellChange.BROKE),
        (PASSES, CRASHES, CellChange.BROKE),
        (FAILS, PASSES, CellChange.FIXED),
        (FAILS, FAILS, CellChange.SAME),
        (FAILS, OTHERWISE, CellChange.CHANGED),
        (FAILS, CRASHES, CellChange.CHANGED),
        (PASSES, NEVER, CellChange.CHANGED),
        (NEVER, NEVER, CellChange.SAME),
        (DECLINES, PASSES, CellChange.CHANGED),
        (ABSENT, PASSES, CellChange.NEW),
        (None, FAILS, CellChange.NEW),
        (PASSES, ABSENT, CellChange.GONE),
        (FAILS, None, CellChange.GONE),
        (ABSENT, None, CellChange.SAME),
        (PASSES, UNSTABLE, CellChange.UNKNOWN),
        (ABSENT, UNBUILT, CellChange.UNKNOWN),
        (PASSES, FULL, CellChange.UNKNOWN),
        (PASSES, seen(Outcome.PASSES, unstable=True), CellChange.UNKNOWN),
        (FAILS, seen(Outcome.FAILS, exercised=Exercised.NO), CellChange.CHANGED),
    ],
)
def test_a_pair_of_answers_is_a_change(
    before: Observation | None, after: Observation | None, expected: CellChange
) -> None:
    assert change(TOY, before, after) is expected


def test_what_one_release_alone_was_asked_is_neither_new_nor_gone() -> None:
    row = seen(Outcome.FAILS)
    cells = {
        "two releases": without_environment(row.cell),
        "two sets of evidence": row.cell,
    }
    changes = {
        name: [
            found.change for found in (*compare({cell: row}, {}, {}), *compare({}, {cell: row}, {}))
        ]
        for name, cell in cells.items()
    }

    assert changes == {
        "two releases": [CellChange.UNMEASURED, CellChange.UNMEASURED],
        "two sets of evidence": [CellChange.GONE, CellChange.NEW],
    }


def test_sizes_in_a_message_are_no_change() -> None:
    one = seen(Outcome.FAILS, how=failed("KeyError", "shape [2, 3] at 0x7f00"))
    other = seen(Outcome.FAILS, how=failed("KeyError", "shape [4, 5] at 0x7fff"))

    assert change(TOY, one, other) is CellChange.SAME


@given(ANY, ANY)
def test_what_is_unknown_is_never_told_as_a_difference(
    before: Observation | None, after: Observation | None
) -> None:
    unknown = Reading.UNKNOWN in {answer(before), answer(after)}

    assert unknown is (change(TOY, before, after) is CellChange.UNKNOWN)


def _side(*rows: Observation) -> dict[Cell, Observation]:
    return {without_environment(row.cell): row for row in rows}


def test_cells_are_compared_without_their_environments_in_the_order_given() -> None:
    before = [
        seen(Outcome.PASSES, cell("4.50.0", Precision.FP32)),
        seen(Outcome.PASSES, cell("4.50.0", Precision.BF16)),
        seen(Outcome.NOT_APPLICABLE, cell("4.50.0", Precision.FP16)),
    ]
    after = [
        seen(Outcome.NOT_APPLICABLE, cell("4.50.0@abc", Precision.FP16)),
        seen(Outcome.FAILS, cell("4.50.0@abc", Precision.BF16)),
        seen(Outcome.PASSES, cell("4.50.0@abc", Precision.FP32)),
    ]

    expected = (
        CellDifference(
            cell=cell("", Precision.FP32),
            change=CellChange.SAME,
            before=before[0],
            after=after[2],
        ),
        CellDifference(
            cell=cell("", Precision.BF16),
            change=CellChange.BROKE,
            before=before[1],
            after=after[1],
        ),
    )

    assert compare(_side(*before), _side(*after), CASES) == expected


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        (1.0, 1.05, False),
        (1.0, 1.2, True),
        (1.0, 0.8, True),
        (0.0, 1e-9, True),
        (math.nan, math.nan, False),
        (1.0, math.nan, True),
        (math.inf, 1.0, True),
    ],
)
def test_a_number_moves_by_a_tenth_of_itself(
    before: float,
    after: float,
    moves: bool,  # noqa: FBT001
) -> None:
    one = dataclasses.replace(PASSES, measured={"error": before, "only before": 1.0})
    other = dataclasses.replace(PASSES, measured={"error": after})
    (difference,) = compare(_side(one), _side(other), CASES)
    named = [(found.name, str(found.before), str(found.after)) for found in difference.moved]

    assert difference.change is CellChange.SAME
    assert named == ([("error", str(before), str(after))] if moves else [])


def test_numbers_of_a_cell_that_fails_do_not_move() -> None:
    one = dataclasses.replace(PASSES, measured={"error": 1.0})
    other = dataclasses.replace(FAILS, measured={"error": 2.0})
    (difference,) = compare(_side(one), _side(other), CASES)

    assert difference.moved == ()
