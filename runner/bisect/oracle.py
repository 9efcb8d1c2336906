"""What a cell answers to the question whether it is bad, and why it answers nothing."""

from __future__ import annotations

import dataclasses

from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.judging.verdicts import described
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Exercised, Reading


def answer(
    case: Case, row: Observation, *, any_failure: bool = False, signature: str = ""
) -> Answer:
    """Say whether a cell is bad: it matches one of the case's `fails` entries.

    For a case that describes no failure, bad is a failure with this signature. There is no answer
    where the case fails differently, passes without computing in its precision, or where the
    machine decided. A script that does not say what it exercises is believed.
    """
    if case.bare:
        row = dataclasses.replace(row, exercised=Exercised.EMPTY)
    match row.reading.fails:
        case None:
            return Answer.UNKNOWN
        case False:
            return Answer.NO
        case True:
            same = any_failure or _is_it(case, row, signature)
            return Answer.YES if same else Answer.UNKNOWN


def _is_it(case: Case, row: Observation, signature: str) -> bool:
    if case.block.fails:
        return any(described(entry, row) for entry in case.block.fails)
    return bool(signature) and row.failed is not None and row.failed.signature == signature


def why_unknown(row: Observation) -> str:
    """Say why a cell that was measured answers nothing: `fails differently (KeyError: 'x')`."""
    if row.unstable:
        return f"is disputed: {dispute(row)}" if row.sides else f"is unstable: {row.described}"
    if row.reading is Reading.SILENT and row.outcome.reading is Reading.GOOD:
        return f"passes without computing in {row.cell.precision}"
    if row.outcome.is_failure:
        return f"fails differently ({row.headline})"
    return row.described
