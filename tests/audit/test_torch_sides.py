"""Answers under the torch of somebody's packages: which evidence tells about it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, installed, provenance, seen

from repromatrix.runner.audit.hits import Audit, audit, says_on
from repromatrix.runner.audit.known import KnownEvidence, known
from repromatrix.runner.audit.questions import AuditQuestion, Level, Says, Spot, named
from repromatrix.runner.audit.render import document
from repromatrix.runner.document import write
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.model.case import Case

FAILS, PASSES = Outcome.FAILS, Outcome.PASSES
BF16 = AuditQuestion(precisions=(Precision.BF16,))
DEPENDS = case(BREAKS.replace('when = ["transformers>=4.50,<4.51"]', 'when = ["torch<2.8"]'))
LINE = {"4.49.0": PASSES, "4.50.0": PASSES, "4.51.0": PASSES}
TOY = case(BREAKS)
BREAKING = {**LINE, "4.50.0": FAILS}
OURS, WARNING = "4.50.0+torch2.6.0", "torch 2.13.0 for your 2.6.0"
UNDER = {"4.49.0+torch2.6.0": FAILS, "4.51.0+torch2.6.0": FAILS, "4.50.0+torch2.8.0": PASSES}


def text(found: Audit) -> str:
    return write(document(found), "text")


def evidence(
    torch: str, outcomes: Mapping[str, Outcome], of: Case = DEPENDS, unusable: str = ""
) -> KnownEvidence:
    """Return what is known to somebody with a torch."""
    held = {name: _environment(name, unusable) for name in outcomes}
    rows = [
        seen(outcome, cell(name), ran=provenance(of, held[name]))
        for name, outcome in outcomes.items()
    ]
    return known({of.name: of}, held, rows, torch=torch)


def _environment(name: str, unusable: str) -> Environment:
    base, torch = under_torch(name) or (name, "")
    if not torch:
        return environment(name)
    made = environment(name, source=Source.TORCH, transformers=base, torch=torch)
    return dataclasses.replace(made, unusable="imports no model" if name == unusable else "")


def told(torch: str, transformers: str = "4.50.0", **options: object) -> tuple[Says, Level, str]:
    outcomes = {**LINE, **UNDER}
    mine = installed(transformers, torch=torch)
    if not torch:
        mine = dataclasses.replace(mine, pins={"transformers": transformers}, loose={})
    found = audit(mine, evidence(torch, outcomes, **options), BF16)  # type: ignore[arg-type]
    cells = [*(one for hit in found.hits for one in hit.stands), *found.clear]
    [answer] = [*cells, *found.unknown, *found.not_applicable]
    return answer.says, answer.level, answer.why


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        ("2.6.0", (Says.HITS, Level.DERIVED)),  # from the releases on both sides, under 2.6.0
        ("2.5.1", (Says.HITS, Level.DERIVED)),  # as with every case: beyond is like the last
        ("2.7.1", (Says.UNKNOWN, Level.UNKNOWN)),  # between 2.6.0 and 2.8.0, which are not alike
        ("2.8.0", (Says.CLEAR, Level.MEASURED)),
        ("2.9.1", (Says.CLEAR, Level.MEASURED)),  # between 2.8.0 and 2.13.0, which are
        ("2.13.0", (Says.CLEAR, Level.MEASURED)),
        ("2.13.0+cu130", (Says.CLEAR, Level.MEASURED)),
        ("2.14.0", (Says.CLEAR, Level.MEASURED)),
        ("", (Says.CLEAR, Level.MEASURED)),  # as with every case, and the headline says so
    ],
)
def test_a_torch_is_told_apart_only_where_the_expectations_do(
    torch: str, expected: tuple[Says, Level]
) -> None:
    assert told(torch)[:2] == expected


def test_the_expectations_make_torch_no_package_that_has_to_be_listed() -> None:
    assert named(DEPENDS) == ("transformers",)


def test_what_was_measured_with_a_torch_that_is_alike_is_not_called_yours() -> None:
    found = text(
        audit(installed("4.49.0", torch="2.5.1"), evidence("2.5.1", {**LINE, **UNDER}), BF16)
    )
    own = text(
        audit(installed("4.49.0", torch="2.6.0"), evidence("2.6.0", {**LINE, **UNDER}), BF16)
    )

    assert "  measured in 4.49.0+torch2.6.0\n" in found
    assert "torch 2.13.0 for your 2.5.1" in found
    assert "  measured in 4.49.0+torch2.6.0: with your torch\n" in own
    assert "for your" not in own


def test_a_lock_that_names_the_version_of_our_build_is_not_called_another() -> None:
    told = {
        torch: text(audit(installed(torch=torch), evidence(torch, LINE), BF16))
        for torch in ("2.13.0", "2.13.0+cpu", "2.13.0+cu130", "2.12.0")
    }

    assert ["Assumed: torch 2.13.0 for your" in one for one in told.values()] == [
        False,
        False,
        False,
        True,
    ]


def test_where_nothing_was_measured_on_its_side_a_torch_is_outside() -> None:
    found = audit(installed("4.50.0", torch="2.6.0"), evidence("2.6.0", LINE), BF16)

    assert [one.why for one in found.unknown] == ["torch 2.6.0 is outside the measured versions"]


def test_where_no_model_can_be_imported_no_case_applies() -> None:
    broken = "4.51.0+torch2.6.0"
    known_to = evidence("2.6.0", {**LINE, **UNDER}, unusable=broken)
    spot = Spot(DEPENDS.name, Precision.BF16)

    assert told("2.6.0", "4.51.0", unusable=broken) == (
        *(Says.NOT_APPLICABLE, Level.UNKNOWN),
        "imports no model",
    )
    there = says_on(["4.51.0"], [spot], known_to, Device.CPU)
    assert there == {spot: {"4.51.0": Says.NOT_APPLICABLE}}
    assert told("2.13.0", "4.51.0", unusable=broken)[0] is Says.CLEAR


def test_where_a_cell_was_measured_under_the_torch_of_somebody_that_is_the_answer() -> None:
    plain = audit(installed("4.50.0"), evidence("2.6.0", BREAKING, TOY), BF16)
    found = audit(installed("4.50.0"), evidence("2.6.0", {**BREAKING, OURS: PASSES}, TOY), BF16)

    assert [hit.case.name for hit in plain.hits] == ["toy_breaks"]
    assert WARNING in text(plain)
    assert not found.hits
    assert [(one.level, one.rests_on[0].cell.environment) for one in found.clear] == [
        (Level.MEASURED, OURS)
    ]
    assert WARNING not in text(found)


def test_a_failure_under_it_says_where_it_was_measured_and_keeps_what_avoids_it() -> None:
    failing = evidence("2.6.0", {**BREAKING, OURS: FAILS}, TOY)
    answer = text(audit(installed("4.50.0"), failing, BF16))

    assert f"  measured in {OURS}: with your torch\n" in answer
    assert "avoided by newer: transformers 4.51.0; older: transformers 4.49.0" in answer
    assert WARNING not in answer


def test_where_it_was_measured_for_another_release_or_torch_all_is_as_without_it() -> None:
    plain = text(audit(installed("4.50.0"), evidence("2.6.0", BREAKING, TOY), BF16))

    for name in ("4.49.0+torch2.6.0", "4.50.0+torch2.8.0"):
        also = evidence("2.6.0", {**BREAKING, name: PASSES}, TOY)
        assert text(audit(installed("4.50.0"), also, BF16)) == plain
