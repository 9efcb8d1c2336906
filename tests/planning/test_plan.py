"""The plan of a run: what is missing, coarse to fine."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from factories import case, cell, environment, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.judging.verdicts import is_current
from repromatrix.runner.model.cell import Cell, cells_of
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.plan import Unit, answered, applicable, coarse_to_fine, plan

TOY = case("workarounds.eager = 'Choose eager.'")
CASES = {TOY.name: TOY}
HERE = environment()
CURRENT = provenance(TOY, HERE)


@given(st.lists(st.integers(), unique=True, max_size=90))
def test_coarse_to_fine_is_a_permutation_that_begins_with_newest_and_oldest(
    numbers: list[int],
) -> None:
    names = [str(number) for number in numbers]
    order = coarse_to_fine(names)

    assert sorted(names) == sorted(order)
    assert [*dict.fromkeys([*names[-1:], *names[:1]])] == list(order[:2])


@given(st.integers(min_value=2, max_value=90), st.data())
def test_wherever_a_run_stops_the_gaps_are_alike(size: int, data: st.DataObject) -> None:
    names = [str(number) for number in range(size)]
    stop = data.draw(st.integers(min_value=2, max_value=size))
    known = sorted(int(name) for name in coarse_to_fine(names)[:stop])
    gaps = [high - low for low, high in itertools.pairwise(known)]

    assert max(gaps) <= 2 * min(gaps) + 2


def test_the_cells_of_a_case_come_plain_first() -> None:
    expected = [
        cell("4.50.0", precision, workaround=workaround)
        for workaround in ("", "eager")
        for precision in Precision
    ]

    assert expected == list(cells_of(TOY, "4.50.0", tuple(Precision), Device.CPU))


def test_what_machines_dispute_is_missing_though_it_is_current() -> None:
    row = seen(ran=CURRENT)
    disputed = dataclasses.replace(row, unstable=True, sides=(row, row))

    assert answered(row, TOY, HERE)
    assert not answered(disputed, TOY, HERE)
    assert not answered(None, TOY, HERE)


@pytest.mark.parametrize(
    ("outcome", "changes", "expected"),
    [
        (Outcome.PASSES, {}, True),
        (Outcome.FAILS, {}, True),
        (Outcome.DECLINES, {}, True),
        (Outcome.TIMES_OUT, {}, True),
        (Outcome.OUT_OF_MEMORY, {}, True),
        (Outcome.NOT_RUN, {}, False),
        (Outcome.UNBUILDABLE, {}, False),
        (Outcome.PASSES, {"case_digest": "another"}, False),
        (Outcome.PASSES, {"environment_digest": "another"}, False),
        (Outcome.PASSES, {"protocol": 0}, False),
        (Outcome.PASSES, {"run": "another", "hardware": "another"}, True),
    ],
)
def test_evidence_answers_until_case_environment_or_protocol_change(
    outcome: Outcome,
    changes: dict[str, str],
    expected: bool,  # noqa: FBT001
) -> None:
    ran = dataclasses.replace(CURRENT, **changes)  # type: ignore[arg-type]

    assert expected is is_current(seen(outcome, ran=ran), TOY, HERE)


def test_cells_whose_case_cannot_be_run_there_are_left_out() -> None:
    cases = {**CASES, "toy_melts": case(name="toy_melts", dependencies=["transformers>=4.51"])}
    cells = [cell(), cell(name="toy_melts")]

    assert applicable(cells, cases, HERE) == (cell(),)


def test_environments_with_nothing_to_do_are_left_out_of_the_plan() -> None:
    def cells_in(name: str) -> tuple[Cell, ...]:
        return () if name == "b" else (cell(name),)

    expected = (
        Unit(environment="c", cells=(cell("c"),)),
        Unit(environment="a", cells=(cell("a"),)),
    )

    assert expected == plan("abc", cells_in)


def test_a_large_unit_is_cut_into_parts_for_several_nodes() -> None:
    cells = tuple(cells_of(TOY, "4.50.0", tuple(Precision), Device.CPU))

    parts = [part.cells for part in Unit(environment="4.50.0", cells=cells).parts(4)]

    assert parts == [cells[:4], cells[4:]]
    assert [*Unit(environment="4.50.0", cells=()).parts(4)] == []
