"""What several machines say of one cell: who answers, and that no denied pass is believed."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest
from factories import cell, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.evidence.answering import answer, answers, dispute
from repromatrix.runner.judging.verdicts import judge
from repromatrix.runner.model.observation import LOCAL, MERGED
from repromatrix.runner.model.outcomes import Exercised, Outcome, Verdict

if TYPE_CHECKING:
    from repromatrix.runner.model.observation import Observation

HERE, THERE = "x86_64 avx2", "aarch64 bf16"


def said(
    outcome: Outcome, source: str = MERGED, hardware: str = THERE, **changed: object
) -> Observation:
    ran = dataclasses.replace(provenance(), hardware=hardware)
    row = dataclasses.replace(seen(outcome, ran=ran), source=source)
    return dataclasses.replace(row, **changed)  # type: ignore[arg-type]


PASSES, FAILS = said(Outcome.PASSES), said(Outcome.FAILS)
OWN_PASSES = said(Outcome.PASSES, LOCAL, HERE)
ROWS = st.builds(
    said,
    st.sampled_from([one for one in Outcome if one.was_run]),
    exercised=st.sampled_from(Exercised),
    unstable=st.booleans(),
)


def test_machines_that_agree_are_one_row_and_the_own_one_is_kept() -> None:
    assert answer([OWN_PASSES, PASSES]) == OWN_PASSES
    assert answer([PASSES, OWN_PASSES]) == OWN_PASSES


def test_a_pass_that_is_denied_is_unstable_and_names_both_sides() -> None:
    found = answer([OWN_PASSES, FAILS])

    assert found == dataclasses.replace(FAILS, unstable=True, sides=(FAILS, OWN_PASSES))
    assert dispute(found) == (
        "fails: ValueError: it breaks (aarch64 bf16, torch 2.13.0+cpu);"
        " passes (here, x86_64 avx2, torch 2.13.0+cpu)"
    )


def test_two_failures_of_other_kinds_deny_each_other() -> None:
    other = said(Outcome.FAILS, failed=failed("KeyError", "something else"))

    assert answer([FAILS, other]).sides != ()


@pytest.mark.parametrize(
    "denying",
    [
        said(Outcome.PASSES, unstable=True),
        said(Outcome.PASSES, exercised=Exercised.NO),
        said(Outcome.DECLINES),
        said(Outcome.TIMES_OUT),
    ],
)
def test_who_cannot_confirm_a_pass_denies_it(denying: Observation) -> None:
    found = answer([OWN_PASSES, denying])

    assert (found.unstable, len(found.sides)) == (True, 2)


def test_what_only_the_machine_decided_denies_nothing() -> None:
    for outcome in (Outcome.OUT_OF_MEMORY, Outcome.UNBUILDABLE, Outcome.NOT_RUN):
        assert answer([PASSES, said(outcome)]) == PASSES
        assert answers([said(outcome), PASSES]) == (PASSES,)


def test_a_refusal_of_this_machine_is_seen_whatever_others_say() -> None:
    refused = said(Outcome.NOT_RUN, LOCAL, HERE)

    assert answer([PASSES, refused]) == refused


def test_what_is_about_other_pins_denies_nothing() -> None:
    other = dataclasses.replace(
        FAILS, provenance=dataclasses.replace(FAILS.provenance, environment_digest="other")
    )

    assert set(map(id, answers([PASSES, other]))) == {id(PASSES), id(other)}


def test_that_a_cell_was_not_run_elsewhere_says_nothing_where_it_was_run() -> None:
    nowhere = dataclasses.replace(provenance(), environment_digest="", run="later")
    unbuilt = dataclasses.replace(said(Outcome.UNBUILDABLE), provenance=nowhere)
    apart = dataclasses.replace(unbuilt, cell=cell("4.51.0"))

    assert answers([PASSES, unbuilt, apart]) == (PASSES, apart)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_the_order_of_the_sides_changes_nothing(rows: list[Observation]) -> None:
    found = {repr(answer(order)) for order in itertools.permutations(rows)}

    assert len(found) == 1


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_no_cell_is_as_expected_that_one_machine_denies(rows: list[Observation]) -> None:
    judging = [row for row in rows if not row.outcome.blames_machine]
    verdicts = {judge(None, row) for row in judging}

    if judge(None, answer(rows)) is Verdict.AS_EXPECTED:
        assert verdicts == {Verdict.AS_EXPECTED}
