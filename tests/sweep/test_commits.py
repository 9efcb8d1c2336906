"""The commit of a finding: which side of its change a commit is like, or neither."""

from __future__ import annotations

import dataclasses
import json

import pytest
from factories import seen
from one_case import ENVIRONMENTS
from swept import numbers, record
from tiny_recipes import CONTENT

from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.evidence.swept.changes import change_of
from repromatrix.runner.evidence.swept.records import ProbeRecord, ProbeStatus
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.sweep.commits import inquiry_of
from repromatrix.sweep.recipe_files import ModelRecipe

HOLDS, FAILS, SKIPPED = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED
CELL = Cell("llama/generate#static@0", "", "4.50.0", Precision.FP32, Device.CPU)
FULL = record("llama", "static", FAILS, "the cache is full")
EMPTY = record("llama", "static", FAILS, "the cache is empty")
GOOD = record("llama", "static", HOLDS)
OLDER, NEWER = ENVIRONMENTS[:2]


def said(found: ProbeRecord) -> dict[str, object]:
    """Return what a process says of a record."""
    return {
        "probe": found.key.probe,
        "status": found.status,
        "error": found.error,
        "message": found.message,
        "place": found.place,
        "why": found.why,
        "summary": dict(found.summary),
    }


def asked(before: ProbeRecord, after: ProbeRecord, now: ProbeRecord) -> tuple[Edge, Answer]:
    """Return what a search looks for, and what a commit answers."""
    change = change_of(before, after)
    assert change is not None
    inquiry = inquiry_of(change, ModelRecipe(content=CONTENT), OLDER, NEWER)
    row = dataclasses.replace(
        seen(Outcome.PASSES, CELL), output=json.dumps({"built": True, "probes": [said(now)]})
    )
    return inquiry.edge, inquiry.asked.answer(row)


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        (GOOD, FULL, FULL, (Edge.RISE, Answer.YES)),
        (GOOD, FULL, GOOD, (Edge.RISE, Answer.NO)),
        (GOOD, FULL, EMPTY, (Edge.RISE, Answer.UNKNOWN)),
        (GOOD, FULL, record("llama", "static", SKIPPED, "no"), (Edge.RISE, Answer.UNKNOWN)),
        (FULL, GOOD, FULL, (Edge.FALL, Answer.YES)),
        (FULL, GOOD, GOOD, (Edge.FALL, Answer.NO)),
        (EMPTY, FULL, FULL, (Edge.RISE, Answer.YES)),
        (EMPTY, FULL, EMPTY, (Edge.RISE, Answer.NO)),
    ],
)
def test_a_commit_is_like_one_side_of_a_change_or_says_nothing(
    before: ProbeRecord, after: ProbeRecord, now: ProbeRecord, expected: tuple[Edge, Answer]
) -> None:
    assert asked(before, after, now) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (numbers("llama", 2.0), Answer.YES),
        (numbers("llama", 1.0), Answer.NO),
        (numbers("llama", 3.0), Answer.UNKNOWN),
        (numbers("llama", 2.0, weights="renamed"), Answer.UNKNOWN),
    ],
)
def test_other_numbers_are_held_against_both_sides(now: ProbeRecord, expected: Answer) -> None:
    assert asked(numbers("llama", 1.0), numbers("llama", 2.0), now)[1] is expected


def test_a_process_without_an_answer_says_nothing() -> None:
    change = change_of(GOOD, FULL)
    assert change is not None
    question = inquiry_of(change, ModelRecipe(content=CONTENT), OLDER, NEWER).asked

    assert question.answer(seen(Outcome.CRASHES, CELL)) is Answer.UNKNOWN
    assert question.told(seen(Outcome.CRASHES, CELL), Answer.UNKNOWN) == "crashes"
    assert question.case.name == "llama/generate#static@0"
