"""Fixes on record, held against the commits that were measured to fix."""

from __future__ import annotations

import pytest
from factories import BREAKS, case, environment

from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.fixes import measured_fixes

PULL = "https://github.com/huggingface/transformers/pull/"
ENVIRONMENTS = {name: environment(name) for name in ("4.50.3", "4.51.0", "4.52.0")}


def fix(pull: str = "8", precision: str = "bf16", before: str = "4.50.3") -> PinnedCommit:
    variant = ("toy_breaks", "", precision, "cpu")
    row = PinnedCommit(*variant, "fix", before, "4.51.0", "transformers", commit=pull * 40)
    return row._replace(pull_request=pull, outcome_before="ValueError: it breaks")


def both(recorded: str) -> str:
    """Return the entry in both half precisions, with somebody on record for its fix."""
    return BREAKS.replace('["bf16"]', '["bf16", "fp16"]') + f'fixed-by = "{recorded}"\n'


@pytest.mark.parametrize(
    ("recorded", "pulls", "contradicted"),
    [
        (f"{PULL}8", "8", False),
        (f"{PULL}9", "8", True),
        (f"{PULL}9", "89", False),
        (f"{PULL}7", "89", True),
        ("https://github.com/huggingface/peft/pull/9", "8", False),
        ("https://github.com/huggingface/transformers/issues/9", "8", False),
    ],
)
def test_a_fix_on_record_is_contradicted_by_other_pulls_of_its_package_alone(
    recorded: str, pulls: str, *, contradicted: bool
) -> None:
    rows = [fix(pull, name) for pull, name in zip(pulls, ("bf16", "fp16"), strict=False)]
    (found,) = measured_fixes(case(both(recorded)), rows, ENVIRONMENTS)

    assert (found.is_contradicted, found.on_record) == (contradicted, recorded)
    assert [row.pull_request for row in found.commits] == [*pulls]


@pytest.mark.parametrize(("note", "unrecorded"), [("", True), ("#9", True), ("Not #8.", False)])
def test_an_entry_without_a_fix_on_record_may_say_why(note: str, *, unrecorded: bool) -> None:
    (found,) = measured_fixes(case(f'{BREAKS}note = "{note}"\n'), [fix()], ENVIRONMENTS)

    assert (found.number, found.is_contradicted, found.on_record) == (1, False, "")
    assert found.is_unrecorded is unrecorded


def test_a_fix_is_of_the_entry_whose_failure_ended() -> None:
    later = BREAKS.replace(">=4.50,<4.51", ">=4.51,<4.52").replace("it breaks", "another bug")
    (found,) = measured_fixes(case(BREAKS + later), [fix(before="4.51.0")], ENVIRONMENTS)

    assert found.number == 1


def test_only_the_fix_of_what_an_entry_describes_counts() -> None:
    nameless = fix()._replace(pull_request="")
    another = fix()._replace(case="another")
    another_error = fix()._replace(outcome_before="ValueError: another bug")
    rows = [fix(precision="fp16"), another_error, fix(before="lost"), nameless, another]

    assert list(measured_fixes(case(BREAKS), rows, ENVIRONMENTS)) == []
