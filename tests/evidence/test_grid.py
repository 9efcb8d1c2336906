"""The whole grid: every cell with what is known of it."""

from __future__ import annotations

import dataclasses

import pytest
from factories import case, cell, environments, provenance, seen

from repromatrix.runner.evidence.answering import Grid, survey, unmeasured
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

TOY = case(dependencies=["transformers>=4.50"])
CASES = {TOY.name: TOY}
HELD = environments("4.49.0", "4.50.0")
GRID = Grid(cases=CASES, environments=HELD, precisions=[Precision.BF16], devices=[Device.CPU])
CURRENT = provenance(TOY, HELD["4.50.0"])
PASSES = seen(Outcome.PASSES, ran=CURRENT)


def test_a_cell_that_nobody_ran_says_why() -> None:
    expected = [
        ("4.49.0", Outcome.NOT_APPLICABLE, "needs transformers>=4.50, has 4.49.0"),
        ("4.50.0", Outcome.NOT_RUN, "nobody has run it"),
    ]

    assert expected == [(row.cell.environment, row.outcome, row.reason) for row in survey(GRID, {})]


def test_a_measured_cell_stands_in_its_place() -> None:
    rows = survey(GRID, {PASSES.cell: PASSES})

    assert (rows[0].outcome, rows[1]) == (Outcome.NOT_APPLICABLE, PASSES)


def test_every_cell_is_there_once_case_by_case_and_device_by_device() -> None:
    grid = dataclasses.replace(
        GRID,
        cases={**CASES, "toy_melts": case("workarounds.x = 'X.'", name="toy_melts")},
        precisions=tuple(Precision),
        devices=tuple(Device),
    )
    cells = list(grid.cells())
    expected = [
        cell(release, precision, workaround=workaround, device=device, name=name)
        for name, variants in (("toy_breaks", [""]), ("toy_melts", ["", "x"]))
        for device in Device
        for release in HELD
        for workaround in variants
        for precision in Precision
    ]

    assert expected == cells


def test_what_was_not_measured_carries_what_it_would_run_on() -> None:
    found = unmeasured(TOY, HELD["4.50.0"])

    assert (TOY.digest, HELD["4.50.0"].digest, "2.13.0") == (
        *(found.case_digest, found.environment_digest, found.torch_build),
    )


def test_what_a_gpu_had_no_time_for_is_missed_by_nobody() -> None:
    grid = Grid(
        cases=CASES,
        environments=environments("4.49.0", "4.50.0"),
        precisions=(Precision.BF16,),
        devices=tuple(Device),
        begun={("toy_breaks", "4.50.0")},
    )
    asked = {(one.case, one.environment) for one in grid.cells() if one.device is Device.CUDA}
    others = [one for one in grid.cells() if one.device is Device.CPU]

    assert asked == {("toy_breaks", "4.50.0")}
    assert {one.environment for one in others} == {"4.49.0", "4.50.0"}


@pytest.mark.parametrize("outcome", [Outcome.FAILS, Outcome.UNBUILDABLE, Outcome.NOT_RUN])
def test_what_an_older_case_did_is_gone_where_the_case_is_not_applicable_any_more(
    outcome: Outcome,
) -> None:
    old, new = case(), case(dependencies=("torch", "transformers>=4.51"))
    row = seen(outcome, cell("4.50.0"), ran=provenance(old, HELD["4.50.0"]))
    grid = Grid(
        cases={new.name: new},
        environments=environments("4.50.0"),
        precisions=(Precision.BF16,),
        devices=(Device.CPU,),
    )
    [found] = survey(grid, {row.cell: row})

    assert found.outcome is Outcome.NOT_APPLICABLE
