"""What reports say, held against what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environments, seen

from runner.judging.claims import Standing, check_claims
from runner.model.outcomes import Exercised, Outcome, Precision

if TYPE_CHECKING:
    from runner.model.observation import Observation

CLAIM = """
workarounds.eager = "Choose eager."

[[tool.repromatrix.claims]]
report = "https://example.org/1"
says = "It fails in 4.50 in bf16."
when = ["transformers>=4.50,<4.51"]
precisions = ["bf16"]
outcome = "fails"
"""
TOY = case(CLAIM)
HELD = environments("4.49.0", "4.50.0", "4.50.3")
FAILS, PASSES = seen(Outcome.FAILS), seen(Outcome.PASSES)


@pytest.mark.parametrize(
    ("rows", "standing"),
    [
        ([FAILS], Standing.CONFIRMED),
        ([seen(Outcome.CRASHES)], Standing.CONFIRMED),
        ([seen(Outcome.TIMES_OUT)], Standing.CONFIRMED),
        ([PASSES], Standing.CONTRADICTED),
        ([FAILS, seen(Outcome.PASSES, cell("4.50.3"))], Standing.CONTRADICTED),
        ([], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, cell("4.49.0"))], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, cell("5.0.0"))], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, cell(precision=Precision.FP16))], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, cell(workaround="eager"))], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, cell(name="other_case"))], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, unstable=True)], Standing.UNCHECKED),
        ([seen(Outcome.PASSES, exercised=Exercised.NO)], Standing.UNCHECKED),
        ([seen(Outcome.OUT_OF_MEMORY)], Standing.UNCHECKED),
        ([seen(Outcome.DECLINES)], Standing.UNCHECKED),
    ],
)
def test_a_claim_stands_as_the_cells_that_it_covers_say(
    rows: list[Observation], standing: Standing
) -> None:
    [checked] = check_claims(TOY, rows, HELD)

    assert standing is checked.standing


def test_a_contradicted_claim_names_the_cells_on_both_sides() -> None:
    healed = seen(Outcome.PASSES, cell("4.50.3"))

    [checked] = check_claims(TOY, [FAILS, healed], HELD)

    assert ((FAILS.cell,), (healed.cell,)) == (checked.agreeing, checked.contradicting)


def test_a_claim_about_a_workaround_is_held_against_its_cells_alone() -> None:
    toy = case(CLAIM.replace('"fails"', '"passes"\nworkaround = "eager"'))
    helped = seen(Outcome.PASSES, cell(workaround="eager"))

    [checked] = check_claims(toy, [FAILS, helped], HELD)

    assert (Standing.CONFIRMED, (helped.cell,)) == (checked.standing, checked.agreeing)


def test_a_claim_of_a_crash_is_not_confirmed_by_an_exception() -> None:
    [checked] = check_claims(case(CLAIM.replace('"fails"', '"crashes"')), [FAILS], HELD)

    assert Standing.CONTRADICTED is checked.standing


def test_a_claim_that_names_no_outcome_cannot_be_checked() -> None:
    [checked] = check_claims(case(CLAIM.replace('outcome = "fails"', "")), [FAILS], HELD)

    assert Standing.UNCHECKED is checked.standing
