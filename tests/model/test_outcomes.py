"""The closed vocabularies: every member answers every question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision, Verdict

if TYPE_CHECKING:
    from enum import StrEnum

OUTCOMES = {  # blames the machine, is a failure, was run, is evidence
    "passes": (False, False, True, True),
    "fails": (False, True, True, True),
    "times-out": (False, True, True, True),
    "crashes": (False, True, True, True),
    "out-of-memory": (True, False, True, False),
    "declines": (False, False, True, True),
    "not-applicable": (False, False, False, False),
    "not-measured": (False, False, False, False),
    "unbuildable": (True, False, False, False),
    "not-run": (False, False, False, False),
    "not-due": (False, False, False, False),
}
VERDICTS = {  # is unexpected
    "as-expected": False,
    "regressed": True,
    "fixed": True,
    "changed": True,
    "not-applicable": False,
    "unproven": False,
}
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def test_every_outcome_says_who_is_to_blame() -> None:
    actual = {
        str(one): (one.blames_machine, one.is_failure, one.was_run, one.is_evidence)
        for one in Outcome
    }

    assert actual == OUTCOMES


def test_every_verdict_says_whether_it_is_unexpected() -> None:
    assert {str(one): one.is_unexpected for one in Verdict} == VERDICTS


def test_every_precision_has_torchs_name() -> None:
    assert {str(one): one.dtype for one in Precision} == DTYPES


@pytest.mark.parametrize("words", [Outcome, Verdict, Precision, Device, Exercised])
def test_a_word_has_one_spelling(words: type[StrEnum]) -> None:
    for member in words:
        spelled = "" if member.name == "EMPTY" else member.name.lower().replace("_", "-")

        assert spelled == member.value
