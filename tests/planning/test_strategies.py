"""Which cells decide the truth of what a case expects, and how plan after plan closes in."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from factories import BREAKS, case, cell, environment, environments, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.plan import Axes, Why, deciding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment
    from repromatrix.runner.model.observation import Observation

NAMES = tuple(f"4.{49 + minor}.{patch}" for minor in range(8) for patch in range(2))
LINE = environments(*NAMES)
TOY = case(BREAKS)  # bf16 is expected to fail on 4.50


def axes(
    of: Case = TOY,
    held: Mapping[str, Environment] = LINE,
    precisions: tuple[Precision, ...] = (Precision.BF16,),
) -> Axes:
    return Axes(cases={of.name: of}, environments=held, precisions=precisions, device=Device.CPU)


def at(name: str, outcome: Outcome, *, other: bool = False) -> Observation:
    how = failed("KeyError", "something else") if other else None
    return seen(outcome, cell(name), ran=provenance(TOY, LINE[name]), how=how)


def names(cells: Iterable[Cell]) -> set[str]:
    return {one.environment for one in cells}


def test_pairs_whose_releases_cannot_run_a_case_are_ends_of_lines_of_their_own() -> None:
    names_ = [f"{release}+peft0.17.0" for release in ("4.50.0", "4.51.0", "4.52.0")]
    of = case(
        f"environments = {names_}\n".replace("'", '"') + BREAKS,
        dependencies=("torch", "transformers", "peft>=0.17"),
    )
    old = {name[:6]: environment(name[:6], peft="0.14.0") for name in names_}
    new = {name: environment(name, source=Source.PAIR, peft="0.17.0") for name in names_}

    assert names(deciding(axes(of, old | new), {})) == set(names_)


def test_both_sides_of_each_expected_change_and_both_ends_are_asked() -> None:
    found = deciding(axes(), {})

    assert {one.environment: why for one, why in found.items()} == {
        "4.49.0": Why.END,
        "4.49.1": Why.CHANGE,
        "4.50.0": Why.CHANGE,
        "4.50.1": Why.CHANGE,
        "4.51.0": Why.CHANGE,
        "4.56.1": Why.END,
    }


def test_a_precision_that_is_expected_to_pass_everywhere_is_asked_at_its_ends() -> None:
    found = deciding(axes(precisions=(Precision.FP32,)), {})

    assert names(found) == {NAMES[0], NAMES[-1]}


def test_main_is_always_asked_beside_the_newest_release() -> None:
    held = {**LINE, "main": environment("main", source=Source.MAIN, transformers="5.0.0.dev0")}
    found = deciding(axes(held=held, precisions=(Precision.FP32,)), {})

    assert [one.environment for one in found].count("main") == 1
    assert {found[cell("main", Precision.FP32)], found[cell(NAMES[-1], Precision.FP32)]} == {
        Why.END
    }


def test_a_line_begins_where_the_case_can_be_run() -> None:
    late = case(BREAKS, dependencies=["torch", "transformers>=4.50"])
    found = deciding(axes(late), {})

    assert (found[cell("4.50.0")], found[cell("4.50.1")]) == (Why.END, Why.CHANGE)
    assert cell("4.49.1") not in found


def test_where_a_side_cannot_be_built_the_next_one_is_asked_as_well() -> None:
    gone = dataclasses.replace(at(NAMES[-1], Outcome.UNBUILDABLE), reason="no wheel")
    found = names(deciding(axes(), {gone.cell: gone}))

    assert {NAMES[-1], NAMES[-2]} <= found


def test_between_two_that_disagree_the_middle_is_asked() -> None:
    rows = [at("4.51.0", Outcome.PASSES), at(NAMES[-1], Outcome.FAILS, other=True)]
    found = deciding(axes(), {row.cell: row for row in rows})

    assert found[cell("4.54.0")] is Why.CHANGE
    assert len(found) == 7


def test_between_two_that_agree_nothing_is_asked() -> None:
    rows = [at("4.51.0", Outcome.FAILS, other=True), at(NAMES[-1], Outcome.FAILS, other=True)]

    assert (deciding(axes(), {})) == (deciding(axes(), {r.cell: r for r in rows}))


def test_evidence_of_an_older_case_decides_nothing() -> None:
    stale = dataclasses.replace(
        at("4.52.0", Outcome.FAILS, other=True), provenance=provenance(case(), environment("4.1"))
    )

    assert (deciding(axes(), {})) == (deciding(axes(), {stale.cell: stale}))


def test_what_machines_dispute_is_asked_wherever_it_stands() -> None:
    row = at("4.53.0", Outcome.PASSES)
    disputed = dataclasses.replace(row, unstable=True, sides=(row, row))

    assert deciding(axes(), {row.cell: disputed})[row.cell] is Why.CHANGE
    assert row.cell not in deciding(axes(), {row.cell: row})


TRUTHS = st.lists(st.sampled_from("pfx"), min_size=len(NAMES), max_size=len(NAMES))


def measured(name: str, truth: str) -> Observation:
    outcome = Outcome.PASSES if truth == "p" else Outcome.FAILS
    return at(name, outcome, other=truth == "x")


@given(TRUTHS)
def test_plan_after_plan_closes_in_until_every_open_cell_lies_between_two_that_agree(
    truths: list[str],
) -> None:
    history = dict(zip(NAMES, truths, strict=True))
    known: dict[Cell, Observation] = {}
    rounds = 0
    while left := deciding(axes(), known).keys() - known.keys():
        known.update({one: measured(one.environment, history[one.environment]) for one in left})
        rounds += 1

    assert rounds <= 1 + len(NAMES).bit_length()
    found = [one for one in NAMES if cell(one) in known]
    for before, behind in itertools.pairwise(found):
        between = NAMES[NAMES.index(before) + 1 : NAMES.index(behind)]
        assert not between or history[before] == history[behind]
