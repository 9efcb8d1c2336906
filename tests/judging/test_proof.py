"""Proven: seen to fail as described somewhere, and to pass somewhere; what gives the rest."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environments, failed, seen

from repromatrix.runner.judging.lint import lacking, missing
from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.outcomes import Exercised, Outcome

if TYPE_CHECKING:
    from repromatrix.runner.model.observation import Observation

TOY = case('workarounds = { eager = "Choose eager.", idle = "Hope.", new = "Wait." }\n' + BREAKS)
HELD = environments("4.49.0", "4.50.0")
NO_FAILURE, NO_PASS = "no measured cell fails as described", "no measured cell passes"


def _row(outcome: Outcome, release: str, workaround: str = "", **changes: object) -> Observation:
    row = seen(outcome, cell(release, workaround=workaround))
    ran = dataclasses.replace(
        row.provenance, case_digest=TOY.digest, environment_digest=HELD[release].digest
    )
    return dataclasses.replace(row, provenance=ran, **changes)  # type: ignore[arg-type]


def _judged(*rows: Observation) -> tuple[Judged, ...]:
    return judge_all(rows, {TOY.name: TOY}, HELD)


FAILS, PASSES = _row(Outcome.FAILS, "4.50.0"), _row(Outcome.PASSES, "4.49.0")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((FAILS, PASSES), ()),
        ((), (NO_FAILURE, NO_PASS)),
        ((FAILS,), (NO_PASS,)),
        ((PASSES,), (NO_FAILURE,)),
        ((PASSES, _row(Outcome.FAILS, "4.50.0", failed=failed("KeyError"))), (NO_FAILURE,)),
        ((PASSES, _row(Outcome.FAILS, "4.49.0")), (NO_FAILURE,)),
        ((PASSES, _row(Outcome.FAILS, "4.50.0", unstable=True)), (NO_FAILURE,)),
        ((FAILS, _row(Outcome.PASSES, "4.49.0", exercised=Exercised.NO)), (NO_PASS,)),
    ],
)
def test_what_a_case_lacks_is_named(
    rows: tuple[Observation, ...], expected: tuple[str, ...]
) -> None:
    assert expected == lacking(_judged(*rows))


def test_what_the_machine_decided_neither_proves_nor_doubts() -> None:
    frame = (
        'Traceback (most recent call last):\n  File "cases/toy_breaks.py", line 3, in <module>\n'
    )
    how = dataclasses.replace(failed("MemoryError", "no room"), traceback=frame)
    rows = (
        _row(Outcome.OUT_OF_MEMORY, "4.50.0", failed=how),
        _row(Outcome.UNBUILDABLE, "4.50.0"),
        _row(Outcome.NOT_RUN, "4.50.0"),
    )

    assert lacking(_judged(*rows)) == (NO_FAILURE, NO_PASS)
    assert lacking(_judged(FAILS, PASSES, *rows)) == ()


def test_stale_evidence_proves_nothing() -> None:
    changed = case(BREAKS, code='"""Another toy."""\n')
    judged = judge_all([FAILS, PASSES], {changed.name: changed}, HELD)

    assert lacking(judged) == (NO_FAILURE, NO_PASS)


def test_a_workaround_that_never_passes_where_the_case_fails_is_named() -> None:
    rows = _judged(
        *(FAILS, PASSES),
        _row(Outcome.PASSES, "4.50.0", "eager"),
        _row(Outcome.PASSES, "4.49.0", "idle"),
        _row(Outcome.FAILS, "4.50.0", "idle"),
    )

    found = [*missing(TOY, rows, ["error < 0.1"])]

    assert "The workaround idle passes in no cell in which the plain case fails." in found
    assert not any("eager" in line or "new" in line for line in found)
    assert any(line.startswith("Not measured over several seeds: error < 0.1.") for line in found)
