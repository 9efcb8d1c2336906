"""What differs between two sides, cell by cell."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, failed, seen
from hypothesis import given
from hypothesis import strategies as st

from runner.judging.difference import (
    Change,
    Key,
    Pair,
    Side,
    Word,
    change,
    compare,
    key_of,
    word,
)
from runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from runner.model.observation import Observation

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
    ("row", "expected"),
    [
        (None, Word.ABSENT),
        (ABSENT, Word.ABSENT),
        (PASSES, Word.GOOD),
        (FAILS, Word.BAD),
        (CRASHES, Word.BAD),
        (TIMES_OUT, Word.BAD),
        (NEVER, Word.SILENT),
        (DECLINES, Word.SILENT),
        (seen(Outcome.FAILS, exercised=Exercised.NO), Word.SILENT),
        (FULL, Word.UNKNOWN),
        (UNBUILT, Word.UNKNOWN),
        (REFUSED, Word.UNKNOWN),
        (UNSTABLE, Word.UNKNOWN),
        (seen(Outcome.PASSES, unstable=True), Word.UNKNOWN),
    ],
)
def test_a_side_says_one_word_of_a_cell(row: Observation | None, expected: Word) -> None:
    assert word(row) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (PASSES, FAILS, Change.BROKE),
        (PASSES, OTHERWISE, Change.BROKE),
        (PASSES, CRASHES, Change.BROKE),
        (FAILS, PASSES, Change.FIXED),
        (TIMES_OUT, PASSES, Change.FIXED),
        (FAILS, FAILS, Change.SAME),
        (FAILS, OTHERWISE, Change.CHANGED),
        (FAILS, CRASHES, Change.CHANGED),
        (PASSES, NEVER, Change.CHANGED),
        (NEVER, NEVER, Change.SAME),
        (NEVER, DECLINES, Change.CHANGED),
        (DECLINES, PASSES, Change.CHANGED),
        (ABSENT, PASSES, Change.NEW),
        (None, FAILS, Change.NEW),
        (PASSES, ABSENT, Change.GONE),
        (FAILS, None, Change.GONE),
        (ABSENT, None, Change.SAME),
        (PASSES, UNSTABLE, Change.UNKNOWN),
        (FULL, FAILS, Change.UNKNOWN),
        (ABSENT, UNBUILT, Change.UNKNOWN),
    ],
)
def test_a_pair_of_answers_is_a_change(
    before: Observation | None, after: Observation | None, expected: Change
) -> None:
    assert change(TOY, before, after) is expected


def test_sizes_in_a_message_are_no_change() -> None:
    one = seen(Outcome.FAILS, how=failed("KeyError", "shape [2, 3] at 0x7f00"))
    other = seen(Outcome.FAILS, how=failed("KeyError", "shape [4, 5] at 0x7fff"))

    assert change(TOY, one, other) is Change.SAME


@given(ANY, ANY)
def test_both_directions_mirror_each_other(
    before: Observation | None, after: Observation | None
) -> None:
    mirrored = {
        Change.BROKE: Change.FIXED,
        Change.FIXED: Change.BROKE,
        Change.NEW: Change.GONE,
        Change.GONE: Change.NEW,
    }
    there, back = change(TOY, before, after), change(TOY, after, before)

    assert mirrored.get(there, there) is back


@given(ANY)
def test_nothing_differs_from_itself(row: Observation | None) -> None:
    assert not change(TOY, row, row).differs


@given(ANY, ANY)
def test_what_is_unknown_is_never_told_as_a_difference(
    before: Observation | None, after: Observation | None
) -> None:
    unknown = Word.UNKNOWN in {word(before), word(after)}

    assert unknown is (change(TOY, before, after) is Change.UNKNOWN)


def _side(name: str, *rows: Observation) -> Side:
    return Side(name=name, seen={key_of(row.cell): row for row in rows})


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

    def key(precision: Precision) -> Key:
        return Key("toy_breaks", "", precision, Device.CPU)

    expected = (
        Pair(key=key(Precision.FP32), change=Change.SAME, before=before[0], after=after[2]),
        Pair(key=key(Precision.BF16), change=Change.BROKE, before=before[1], after=after[1]),
    )

    assert compare(_side("4.50.0", *before), _side("mine", *after), CASES) == expected


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        (1.0, 1.05, False),
        (1.0, 1.2, True),
        (1.0, 0.8, True),
        (0.0, 0.0, False),
        (0.0, 1e-9, True),
        (math.nan, math.nan, False),
        (math.inf, math.inf, False),
        (1.0, math.nan, True),
        (math.inf, 1.0, True),
        (-math.inf, math.inf, True),
    ],
)
def test_a_number_moves_by_a_tenth_of_itself(
    before: float,
    after: float,
    moves: bool,  # noqa: FBT001
) -> None:
    one = dataclasses.replace(PASSES, measured={"error": before, "only before": 1.0})
    other = dataclasses.replace(PASSES, measured={"error": after})
    (pair,) = compare(_side("a", one), _side("b", other), CASES)
    named = [(found.name, str(found.before), str(found.after)) for found in pair.moved]

    assert pair.change is Change.SAME
    assert named == ([("error", str(before), str(after))] if moves else [])


def test_numbers_of_a_cell_that_fails_do_not_move() -> None:
    one = dataclasses.replace(PASSES, measured={"error": 1.0})
    other = dataclasses.replace(FAILS, measured={"error": 2.0})
    (pair,) = compare(_side("a", one), _side("b", other), CASES)

    assert pair.moved == ()
