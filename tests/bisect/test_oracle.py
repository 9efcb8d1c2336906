"""What a cell answers to a search: this bug, no bug, or nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, PLACES, case, failed, seen

from repromatrix.runner.bisect.oracle import CaseQuestion, why_unknown
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.observation import Observation

DESCRIBED = seen(Outcome.FAILS)
OTHER = seen(Outcome.FAILS, how=failed("KeyError", "elsewhere"))


def asked(of: Case, *, any_failure: bool = False, signature: str = "") -> CaseQuestion:
    return CaseQuestion(
        case=of,
        workaround="",
        precision=Precision.BF16,
        device=Device.CPU,
        any_failure=any_failure,
        signature=signature,
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (DESCRIBED, Answer.YES),
        (OTHER, Answer.UNKNOWN),
        (seen(Outcome.PASSES), Answer.NO),
        (seen(Outcome.PASSES, exercised=Exercised.NO), Answer.UNKNOWN),
        (seen(Outcome.FAILS, how=failed(), unstable=True), Answer.UNKNOWN),
        (seen(Outcome.CRASHES), Answer.UNKNOWN),
        (seen(Outcome.DECLINES), Answer.UNKNOWN),
        (seen(Outcome.OUT_OF_MEMORY), Answer.UNKNOWN),
        (seen(Outcome.UNBUILDABLE), Answer.UNKNOWN),
    ],
)
def test_bad_is_what_the_case_describes_and_nothing_else(
    row: Observation, expected: Answer
) -> None:
    assert asked(case(BREAKS)).answer(row) is expected


def test_the_right_words_in_another_function_answer_nothing_and_say_where() -> None:
    question = asked(case(f"{BREAKS}where = {PLACES['a'].place!r}\n"))
    here, there = (seen(Outcome.FAILS, how=PLACES[letter]) for letter in "ab")

    assert question.answer(here) is Answer.YES
    assert question.answer(there) is Answer.UNKNOWN
    assert why_unknown(there) == (
        "fails differently (ValueError: it breaks, in toy.layers:Block.forward)"
    )


def test_any_failure_is_bad_where_that_is_asked_for() -> None:
    rows = (DESCRIBED, OTHER, seen(Outcome.CRASHES), seen(Outcome.PASSES))

    assert [asked(case(BREAKS), any_failure=True).answer(row) for row in rows] == [
        *[Answer.YES] * 3,
        Answer.NO,
    ]


def test_a_script_that_does_not_say_what_it_exercises_is_taken_at_its_word() -> None:
    row = seen(Outcome.PASSES, exercised=Exercised.NO)
    bare = dataclasses.replace(case(), bare=True)

    assert [asked(of).answer(row) for of in (case(), bare)] == [Answer.UNKNOWN, Answer.NO]


def test_a_script_that_describes_no_failure_is_asked_about_a_signature() -> None:
    script = case()
    first = DESCRIBED.failed.signature if DESCRIBED.failed else ""

    assert [asked(script, signature=first).answer(row) for row in (DESCRIBED, OTHER)] == [
        Answer.YES,
        Answer.UNKNOWN,
    ]
    assert asked(script).answer(DESCRIBED) is Answer.UNKNOWN


def test_a_failure_that_the_case_does_not_describe_is_told_from_those_that_it_does() -> None:
    other = OTHER.failed.signature if OTHER.failed else ""
    rows = (OTHER, DESCRIBED, seen(Outcome.PASSES), seen(Outcome.CRASHES))

    assert [asked(case(BREAKS), signature=other).answer(row) for row in rows] == [
        *(Answer.YES, Answer.NO, Answer.NO, Answer.UNKNOWN),
    ]
