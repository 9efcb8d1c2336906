"""Which cells are repeated before they are believed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, failed, seen

from repromatrix.runner.cli.shards import left
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.execution.events import Terms, not_built
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import MERGED, MemoryUse
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.paths import Paths

TOY = case()
HERE = environment()
PASSING = seen(Outcome.PASSES)
STALE = dataclasses.replace(PASSING.provenance, case_digest="old")
BROKEN = dataclasses.replace(seen(Outcome.FAILS), failed=failed("KeyError", "something else"))
HUNGRY = dataclasses.replace(seen(Outcome.OUT_OF_MEMORY), memory=MemoryUse(peak=9, limit=8))
POOR = dataclasses.replace(HUNGRY, memory=MemoryUse(peak=7, limit=8))


def planned(places: Paths, matrix: Matrix, before: Observation | None) -> Run:
    cases, environments = {TOY.name: TOY}, {HERE.name: HERE}
    loaded = Project(paths=places, matrix=matrix, locks={}, environments=environments, cases=cases)
    return Run(
        project=loaded,
        selection=select(SelectionRequest(), cases, [HERE.name]),
        terms=Terms(run="now", limits=Limits(seconds=1, memory=1), device=Device.CPU, jobs=1),
        known={} if before is None else {before.cell: before},
    )


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, PASSING, False),
        (None, BROKEN, True),
        (BROKEN, BROKEN, True),
        (dataclasses.replace(BROKEN, repeats=3), BROKEN, False),
        (
            dataclasses.replace(BROKEN, repeats=3, failed=failed("KeyError", "yet another")),
            BROKEN,
            True,
        ),
        (dataclasses.replace(PASSING, repeats=3, unstable=True), PASSING, True),
        (None, HUNGRY, True),
        (None, POOR, False),
        (PASSING, HUNGRY, True),
        (dataclasses.replace(HUNGRY, repeats=3), HUNGRY, False),
    ],
)
def test_what_is_unexpected_or_was_unstable_or_hit_our_limit_is_repeated(
    places: Paths, matrix: Matrix, before: Observation | None, now: Observation, *, expected: bool
) -> None:
    assert expected == planned(places, matrix, before).doubted(now, HERE)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (PASSING, False),
        (BROKEN, True),
        (dataclasses.replace(BROKEN, repeats=3), False),
        (dataclasses.replace(BROKEN, source=MERGED), False),
    ],
)
def test_an_unexpected_result_that_a_killed_run_did_not_repeat_is_run_again(
    places: Paths, matrix: Matrix, row: Observation, *, expected: bool
) -> None:
    assert expected == (row.cell in planned(places, matrix, row).due(HERE))


def test_a_refusal_is_seen_whatever_was_known_before() -> None:
    refused = dataclasses.replace(seen(Outcome.NOT_RUN), reason="refused: torch is foreign")

    for rows in ([PASSING, refused], [refused, PASSING]):
        assert {cell(): refused} == answering_rows(rows, {TOY.name: TOY}, {HERE.name: HERE})


def test_what_the_witness_is_asked_for_is_part_of_a_case() -> None:
    assert case('exercises = "load"').digest != TOY.digest == case('exercises = "compute"').digest


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], 3),
        ([PASSING], 2),
        ([dataclasses.replace(PASSING, cell=cell(precision=one)) for one in Precision], 0),
        ([dataclasses.replace(PASSING, provenance=STALE)], 3),
        (not_built([cell()], {TOY.name: TOY}, "no network", "now"), 2),
    ],
)
def test_what_is_left_after_a_run_is_what_nothing_stored_answers(
    places: Paths, matrix: Matrix, rows: list[Observation], expected: int
) -> None:
    assert expected == left(planned(places, matrix, None), rows)
