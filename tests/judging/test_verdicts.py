"""Evidence with its meaning: stale or not, and dropped with what it is about."""

from __future__ import annotations

import dataclasses

from factories import BREAKS, case, cell, environments, provenance, seen

from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.outcomes import Outcome, Verdict

TOY = case(BREAKS)
CASES = {TOY.name: TOY}
HELD = environments("4.50.0")
FAILS = seen(Outcome.FAILS, ran=provenance(TOY, HELD["4.50.0"]))


def test_evidence_is_judged_by_the_entry_of_its_cell() -> None:
    entry = TOY.block.fails[0]
    expected = (Judged(seen=FAILS, entry=entry, verdict=Verdict.AS_EXPECTED, stale=False),)

    assert expected == judge_all([FAILS], CASES, HELD)


def test_a_changed_expectation_changes_the_verdict_and_makes_nothing_stale() -> None:
    without = {TOY.name: case()}
    expected = (Judged(seen=FAILS, entry=None, verdict=Verdict.REGRESSED, stale=False),)

    assert expected == judge_all([FAILS], without, HELD)


def test_evidence_of_changed_code_or_of_another_environment_is_stale() -> None:
    changed = {TOY.name: case(BREAKS, code='"""Another toy."""\n')}
    rebuilt = {"4.50.0": dataclasses.replace(HELD["4.50.0"], python="3.12")}
    judged = [*judge_all([FAILS], changed, HELD), *judge_all([FAILS], CASES, rebuilt)]

    assert [one.stale for one in judged] == [True, True]


def test_what_was_never_run_cannot_be_stale() -> None:
    rows = [seen(Outcome.UNBUILDABLE), seen(Outcome.NOT_RUN), seen(Outcome.NOT_APPLICABLE)]

    assert [one.stale for one in judge_all(rows, CASES, HELD)] == [False, False, False]


def test_evidence_of_what_is_gone_is_left_out() -> None:
    rows = [seen(at=cell("9.9.9")), seen(at=cell(name="gone_case"))]

    assert judge_all(rows, CASES, HELD) == ()
