"""What a cell answers to the question whether it is bad: this bug, no bug, or nothing."""

from __future__ import annotations

import dataclasses

from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.judging.expectations import described
from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Exercised


def answer(
    case: Case, seen: Observation | None, *, any_failure: bool = False, signature: str = ""
) -> Answer:
    """Say whether a cell is bad: it matches one of the case's `fails` entries.

    A case that describes no failure is asked about a signature, that of the failure seen first.
    Another failure, a pass that never computed and what the machine decided answer nothing; a
    script that does not say what it exercises is taken at its word.
    """
    if case.bare and seen is not None:
        seen = dataclasses.replace(seen, exercised=Exercised.EMPTY)
    match fails(seen):
        case None:
            return Answer.UNKNOWN
        case False:
            return Answer.NO
        case True:
            assert seen is not None  # noqa: S101 - what was not seen fails in no way
            same = any_failure or _is_it(case, seen, signature)
            return Answer.YES if same else Answer.UNKNOWN


def _is_it(case: Case, seen: Observation, signature: str) -> bool:
    if case.block.fails:
        return any(described(entry, seen) for entry in case.block.fails)
    return bool(signature) and seen.failed is not None and seen.failed.signature == signature
