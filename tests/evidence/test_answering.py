"""Which row answers for a cell: the same for everybody who asks, in whatever order rows come."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, failed, provenance, rows_of, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.audit.known import known as audit_evidence
from repromatrix.runner.evidence.answering import (
    Grid,
    answer,
    answering_row,
    answering_rows,
    answers,
    contradictions,
    current,
    survey,
)
from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.judging.verdicts import is_current, is_standing
from repromatrix.runner.model.observation import LOCAL, MERGED
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.planning.plan import answered

if TYPE_CHECKING:
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

TOY, HERE = case(BREAKS), environment()
CASES, HELD = {TOY.name: TOY}, {HERE.name: HERE}
TODAY = provenance(TOY, HERE)
STALE = dataclasses.replace(TODAY, case_digest="old")
PUBLISHED = "2026-11-21"


def row(
    outcome: Outcome, source: str = LOCAL, *, stale: bool = False, **changed: object
) -> Observation:
    found = seen(outcome, ran=STALE if stale else TODAY)
    return dataclasses.replace(found, source=source, **changed)  # type: ignore[arg-type]


def said(rows: list[Observation]) -> Observation:
    return answering_row(rows, lambda one: is_standing(one, TOY, HERE))


def disputed(worst: Observation, *others: Observation) -> Observation:
    return dataclasses.replace(worst, unstable=True, sides=(worst, *others))


PASSES, FAILS = row(Outcome.PASSES), row(Outcome.FAILS)
REPEATED = row(Outcome.PASSES, repeats=3)
THEIRS, DENIED = row(Outcome.PASSES, PUBLISHED), row(Outcome.FAILS, PUBLISHED)
OTHERS = row(Outcome.FAILS, MERGED)
OTHERWISE = row(Outcome.FAILS, PUBLISHED, failed=failed("KeyError", "something else"))
NO_MEMORY = row(Outcome.OUT_OF_MEMORY)
REFUSED = row(Outcome.NOT_RUN)
OLD = row(Outcome.FAILS, stale=True)
LATER = row(Outcome.PASSES, stale=True, provenance=dataclasses.replace(STALE, run="20261122T0"))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([THEIRS, REFUSED, NO_MEMORY], REFUSED),
        ([THEIRS, row(Outcome.NOT_RUN, MERGED)], THEIRS),
        ([THEIRS, row(Outcome.NOT_RUN, stale=True)], THEIRS),
        ([THEIRS, OLD], THEIRS),
        ([THEIRS, NO_MEMORY], THEIRS),
        ([NO_MEMORY, OLD], NO_MEMORY),
        ([OLD, row(Outcome.OUT_OF_MEMORY, stale=True)], OLD),
        ([OLD, row(Outcome.UNBUILDABLE)], OLD),
        ([THEIRS, PASSES], PASSES),
        ([THEIRS, row(Outcome.PASSES, MERGED)], row(Outcome.PASSES, MERGED)),
        ([OLD, LATER], disputed(OLD, LATER)),
        ([DENIED, PASSES], disputed(DENIED, PASSES)),
        ([THEIRS, FAILS], disputed(FAILS, THEIRS)),
        ([FAILS, OTHERWISE], disputed(OTHERWISE, FAILS)),
        ([DENIED, REPEATED], REPEATED),
        ([FAILS, REPEATED], REPEATED),
        ([OTHERS, REPEATED], disputed(OTHERS, REPEATED)),
        ([DENIED, row(Outcome.PASSES, MERGED, repeats=3)], None),
        ([disputed(OTHERS, PASSES), DENIED], disputed(OTHERS, PASSES)),
        ([disputed(OTHERS, PASSES), OTHERWISE], disputed(OTHERWISE, OTHERS, PASSES)),
    ],
)
def test_the_rule_is_as_it_is_written(
    rows: list[Observation], expected: Observation | None
) -> None:
    assert said(rows) == (expected or disputed(*rows))


def test_a_stale_row_of_another_text_of_the_case_denies_nothing() -> None:
    older = dataclasses.replace(LATER.provenance, case_digest="older")

    assert said([OLD, dataclasses.replace(LATER, provenance=older)]).sides == ()


def test_a_cell_whose_case_is_gone_still_has_a_row_that_answers() -> None:
    assert answering_rows([PASSES, THEIRS], {}, {}) == {cell(): PASSES}


def test_what_others_could_not_run_says_nothing_where_a_cell_was_run() -> None:
    theirs = row(Outcome.PASSES, MERGED)
    nowhere = dataclasses.replace(TODAY, environment_digest="", run="later")
    unbuilt = row(Outcome.UNBUILDABLE, MERGED, provenance=nowhere)
    apart = dataclasses.replace(unbuilt, cell=cell("4.51.0"))
    otherwise = row(Outcome.FAILS, MERGED, stale=True)

    assert answers([theirs, unbuilt, apart, row(Outcome.OUT_OF_MEMORY, MERGED)]) == (theirs, apart)
    assert {*map(id, answers([theirs, otherwise]))} == {id(theirs), id(otherwise)}


def _kinds() -> st.SearchStrategy[Observation]:
    return st.builds(
        row,
        st.sampled_from([one for one in Outcome if one is not Outcome.NOT_APPLICABLE]),
        st.sampled_from([LOCAL, MERGED, PUBLISHED, "2026-11-22"]),
        stale=st.booleans(),
        exercised=st.sampled_from(Exercised),
        unstable=st.booleans(),
        repeats=st.sampled_from([1, 3]),
        seconds=st.sampled_from([0.25, 0.5]),
    )


ROWS = st.lists(_kinds(), min_size=1, max_size=5)


@given(st.lists(_kinds(), min_size=1, max_size=4))
def test_the_order_of_rows_never_changes_the_answer(rows: list[Observation]) -> None:
    found = {repr(said([*order])) for order in itertools.permutations(rows)}

    assert len(found) == 1


@given(ROWS)
def test_an_answer_that_is_asked_about_again_is_the_same(rows: list[Observation]) -> None:
    found = said(rows)

    assert said([found]) == said([found, found]) == said([found, *rows]) == found


@given(ROWS)
def test_bisect_audit_planning_and_the_page_have_the_same_row(rows: list[Observation]) -> None:
    found = said(rows)
    today = is_current(found, TOY, HERE)
    counts = today and not found.sides
    expected = {cell(): found} if counts else {}
    audited = audit_evidence(CASES, HELD, rows)
    bisected, contested = current(rows, CASES, HELD)
    known = answering_rows(rows, CASES, HELD)
    grid = Grid(cases=CASES, environments=HELD, precisions=[Precision.BF16], devices=[Device.CPU])

    assert (rows_of(audited), bisected) == (expected, expected)
    assert {*audited.contested} == {*contested} == ({cell()} if today and found.sides else set())
    assert audited.fails(cell()) is (fails(found) if counts else None)
    assert answered(known.get(cell()), TOY, HERE) is counts
    assert survey(grid, known) == (found,)


NOWHERE = dataclasses.replace(
    row(Outcome.OUT_OF_MEMORY), provenance=dataclasses.replace(TODAY, torch_build="of nobody")
)


@pytest.mark.parametrize(
    ("rows", "ran"),
    [
        ([PASSES, FAILS], (("2.13.0+cpu",), ("3.11",))),
        ([NOWHERE, FAILS], (("2.13.0+cpu",), ("3.11",))),
        ([FAILS, NOWHERE], (("2.13.0+cpu",), ("3.11",))),
        ([NOWHERE], ((), ())),
    ],
    ids=["disputed", "first the machine", "then the machine", "the machine alone"],
)
def test_audit_names_what_the_rows_ran_on_that_the_case_decided(
    rows: list[Observation], ran: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    assert audit_evidence(CASES, HELD, rows).ran_on(Device.CPU) == ran


@given(ROWS)
def test_no_denied_pass_is_ever_believed(rows: list[Observation]) -> None:
    """A pass counts where no current row denies it, or where this machine has repeated it.

    What others measured since, which is what the store gives, denies it even then.
    """
    found = said(rows)
    if fails(found) is not False or not is_current(found, TOY, HERE):
        return
    against = [one for one in rows if is_current(one, TOY, HERE) and one.outcome.is_evidence]
    mine = [one for one in against if one.source == LOCAL and one.repeats > 1]
    if mine:
        against = [one for one in against if one in mine or one.source == MERGED]

    assert {(one.outcome, one.unstable, one.exercised) for one in against} == {
        (found.outcome, False, found.exercised)
    }


@given(ROWS)
def test_a_store_that_settles_its_own_rows_first_changes_nothing(rows: list[Observation]) -> None:
    """The store says of its rows which answers; those and the published ones say the same."""
    rows = [one for one in rows if is_standing(one, TOY, HERE) and one.outcome.was_run]
    stored = [one for one in rows if one.source in {LOCAL, MERGED}]
    rest = [one for one in rows if one not in stored]

    if stored:
        assert said([*rest, answer(stored)]) == said(rows)


ABROAD = dataclasses.replace(TODAY, hardware="aarch64 asimd", python="3.11.9")


@pytest.mark.parametrize(
    ("rows", "denied"),
    [
        ([DENIED, REPEATED], {DENIED.cell: DENIED}),
        ([THEIRS, REPEATED], {}),
        ([DENIED, PASSES], {}),
        ([row(Outcome.OUT_OF_MEMORY, PUBLISHED), REPEATED], {}),
        ([row(Outcome.FAILS, MERGED), REPEATED], {}),
        ([row(Outcome.FAILS, PUBLISHED, stale=True), REPEATED], {}),
        ([DENIED, row(Outcome.PASSES, repeats=3, provenance=ABROAD)], {}),
        ([DENIED, row(Outcome.FAILS, repeats=3, unstable=True)], {DENIED.cell: DENIED}),
    ],
    ids=["denied", "same", "once", "memory", "merged", "stale", "other machine", "unstable"],
)
def test_only_what_was_repeated_on_a_like_machine_contradicts_a_published_result(
    rows: list[Observation], denied: dict[Cell, Observation]
) -> None:
    assert contradictions(rows, CASES, HELD) == denied
