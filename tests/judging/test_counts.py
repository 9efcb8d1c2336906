"""Scopes, states and moves of bugs, by what was measured of them."""

from __future__ import annotations

import pytest
from one_case import BLOCK, ENVIRONMENTS, NO_FLOAT, a_case, cells_of, observed

from repromatrix.runner.judging.counts import (
    BugMove,
    BugState,
    Scope,
    bugs_of,
    count,
    moves,
)
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Failed, Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

FP32, BF16, FP16 = Precision
OTHER = Failed(error_class="KeyError", message="other", signature="KeyError: other")
SECOND = """
[[tool.repromatrix.fails]]
title = "Another bug"
at-fault = "peft"
precisions = ["fp16", "fp32"]
symptom = ["wrong-numbers"]
raises = "KeyError"
match = "other"
"""
BOTH = a_case(BLOCK.replace('["bf16"]\nraises', '["bf16", "fp32"]\nraises', 1) + SECOND)
"""In fp32 on 4.50 it fails as its title says, on other releases with another bug."""
KNOWN = {one.name: one for one in ENVIRONMENTS}


def rows(
    case: Case, *failing: Precision, how: Failed = NO_FLOAT, at: str = "4.50.0"
) -> list[Observation]:
    """Return what the plain case did on 4.50.0 and 4.51.0, where it passes."""
    return [
        observed(cell, Outcome.FAILS, failed=how)
        if cell.environment == at and cell.precision in failing
        else observed(cell, Outcome.PASSES)
        for cell in cells_of([case], [Device.CPU])
        if not cell.workaround and cell.environment in {"4.50.0", "4.51.0"}
    ]


@pytest.mark.parametrize(
    ("failing", "trigger", "scope"),
    [
        ([BF16, FP16], '["cast"]', Scope.HALF),
        ([FP16], '["autocast", "forward"]', Scope.MIXED),
        ([FP16], '["autocast", "load"]', Scope.HALF),
        ([FP32, BF16, FP16], '["autocast"]', Scope.EVERY),
        ([FP32, FP16], '["cast"]', Scope.SOME),
        ([], '["cast"]', Scope.UNKNOWN),
    ],
)
def test_the_scope_of_a_bug_is_what_was_measured(
    failing: list[Precision], trigger: str, scope: Scope
) -> None:
    case = a_case(BLOCK.replace('["trainer"]', trigger))
    [bug] = bugs_of(case, KNOWN, rows(case, *failing))

    assert bug.scope is scope


def test_what_fp32_does_beside_no_failure_tells_no_scope() -> None:
    case = a_case()
    seen = rows(case, BF16)
    [bug] = bugs_of(
        case, KNOWN, [row for row in seen if row.reading.fails or row.cell.environment == "4.51.0"]
    )

    assert bug.scope is Scope.UNKNOWN


def fails(at: str, precision: Precision, how: Failed) -> Observation:
    [cell] = [
        cell
        for cell in cells_of([BOTH], [Device.CPU])
        if (cell.workaround, cell.environment, cell.precision) == ("", at, precision)
    ]
    return observed(cell, Outcome.FAILS, failed=how)


def test_a_second_bug_of_a_case_is_counted_apart_and_hidden_where_the_first_one_fails() -> None:
    seen = [
        fails("4.50.0", FP32, NO_FLOAT),
        fails("4.50.0", BF16, NO_FLOAT),
        fails("4.51.0", FP32, OTHER),
    ]
    first, second = bugs_of(BOTH, KNOWN, seen)

    assert (first.title, first.package) == (BOTH.block.title, "transformers")
    assert (second.title, second.package) == ("Another bug", "peft")
    assert (first.is_silent, second.is_silent) == (False, True)
    assert [bug.state({"4.50.0"}) for bug in (first, second)] == [BugState.OPEN, BugState.UNKNOWN]
    assert [bug.newest({"4.51.0"}) for bug in (first, second)] == [BugState.UNKNOWN, BugState.OPEN]
    assert second.newest({"5.0.0"}) is BugState.UNMEASURED


def test_moves_account_for_the_difference_between_two_counts() -> None:
    old, new = "4.50.0", "4.51.0"
    where = {
        BugMove.BROKE: (new, {old, new}),
        BugMove.FIXED: (old, {old, new}),
        BugMove.CAME: (new, {new}),
        BugMove.WENT: (old, {old}),
    }
    bugs = {}
    for move, (failing, asked) in where.items():
        case = a_case(name=move)
        seen = [row for row in rows(case, BF16, at=failing) if row.cell.environment in asked]
        bugs[move] = bugs_of(case, KNOWN, seen)
    every = [bug for some in bugs.values() for bug in some]
    before, after = (count((bug, bug.state({name})) for bug in every) for name in (old, new))

    assert moves(every, {old}, {new}) == bugs
    assert (len(before.open), len(after.open)) == (2, 2)


def test_what_is_intended_is_no_known_bug() -> None:
    meant = a_case(BLOCK.replace("models", 'kind = "policy"\nmodels', 1), "meant")
    bugs = [bug for case in (a_case(), meant) for bug in bugs_of(case, KNOWN, rows(case, BF16))]
    old, new = (count((bug, bug.newest({name})) for bug in bugs) for name in ("4.50.0", "4.51.0"))

    assert old.says == (
        "1 known bug, 0 of them silent (1 in half precision only), and 1 intended change"
    )
    assert (old.tally, new.tally) == (
        "1 known bug, open, and 1 intended change",
        "1 known bug, fixed",
    )
    assert count([]).says == count([]).tally == "0 known bugs"
