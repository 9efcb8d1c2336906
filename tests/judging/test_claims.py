"""What reports say, held against what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environments, seen

from repromatrix.runner.judging.verdicts import ClaimStanding, check_claims
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.model.observation import Observation

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
        ([FAILS], ClaimStanding.CONFIRMED),
        ([seen(Outcome.CRASHES)], ClaimStanding.CONFIRMED),
        ([seen(Outcome.TIMES_OUT)], ClaimStanding.CONFIRMED),
        ([PASSES], ClaimStanding.CONTRADICTED),
        ([FAILS, seen(Outcome.PASSES, cell("4.50.3"))], ClaimStanding.CONTRADICTED),
        ([], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, cell("4.49.0"))], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, cell("5.0.0"))], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, cell(precision=Precision.FP16))], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, cell(workaround="eager"))], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, cell(name="other_case"))], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, unstable=True)], ClaimStanding.UNCHECKED),
        ([seen(Outcome.PASSES, exercised=Exercised.NO)], ClaimStanding.UNCHECKED),
        ([seen(Outcome.OUT_OF_MEMORY)], ClaimStanding.UNCHECKED),
        ([seen(Outcome.DECLINES)], ClaimStanding.UNCHECKED),
    ],
)
def test_a_claim_stands_as_the_cells_that_it_covers_say(
    rows: list[Observation], standing: ClaimStanding
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

    assert (ClaimStanding.CONFIRMED, (helped.cell,)) == (checked.standing, checked.agreeing)


def test_a_claim_of_a_crash_is_not_confirmed_by_an_exception() -> None:
    [checked] = check_claims(case(CLAIM.replace('"fails"', '"crashes"')), [FAILS], HELD)

    assert ClaimStanding.CONTRADICTED is checked.standing


def test_a_claim_that_names_no_outcome_cannot_be_checked() -> None:
    [checked] = check_claims(case(CLAIM.replace('outcome = "fails"', "")), [FAILS], HELD)

    assert ClaimStanding.UNCHECKED is checked.standing
