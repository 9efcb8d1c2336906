"""The question whether a case is bad, what a cell answers to it, and why it answers nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.judging.verdicts import described
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Exercised, Precision, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseQuestion:
    """What is asked of a case wherever it runs: whether it is bad there."""

    case: Case
    workaround: str
    precision: Precision
    device: Device
    any_failure: bool = False
    signature: str = ""
    """What bad means instead of the failures that the case describes: a failure like this one."""
    beside: str = ""
    """The pair or stack whose packages its commits get, where it needs what no release has."""

    def cell(self, environment: str) -> Cell:
        """Return the cell in an environment."""
        return Cell(self.case.name, self.workaround, environment, self.precision, self.device)

    def blame(self, good: str, bad: str) -> str:
        """Return the command that finds the package that differs between two environments."""
        case = self.case.name if self.case.where.startswith("cases/") else self.case.where
        variant = f" --workaround {self.workaround}" if self.workaround else ""
        what = f"{case} --precision {self.precision}{variant}"
        return f"nox -s blame -- {what} --good {good} --bad {bad}"

    @property
    def is_settled(self) -> bool:
        """Whether it is settled what bad means."""
        return bool(self.case.block.fails or self.any_failure or self.signature)

    def answer(self, row: Observation) -> Answer:
        """Say whether a cell is bad: it matches one of the case's `fails` entries.

        With a signature, a failure of that signature is bad, and one that the case describes good.
        There is no answer where the case fails differently, passes without computing in its
        precision, or where the machine decided. A script that does not say what it exercises is
        believed.
        """
        if self.case.bare:
            row = dataclasses.replace(row, exercised=Exercised.EMPTY)
        match row.reading.fails:
            case None:
                return Answer.UNKNOWN
            case False:
                return Answer.NO
            case True:
                return Answer.YES if self.any_failure else self._failing(row)

    def told(self, row: Observation, answer: Answer) -> str:
        """Say what a cell did, in a line; why it gives no answer where it gives none."""
        return why_unknown(row) if answer is Answer.UNKNOWN else row.headline

    def _failing(self, row: Observation) -> Answer:
        is_described = any(described(entry, row) for entry in self.case.block.fails)
        if not self.signature:
            return Answer.YES if is_described else Answer.UNKNOWN
        if row.failed is not None and row.failed.signature == self.signature:
            return Answer.YES
        return Answer.NO if is_described else Answer.UNKNOWN

    def recognising(self, rows: Iterable[Observation]) -> CaseQuestion:
        """Return the question with the signature that bad means, once a failure was seen."""
        if self.is_settled:
            return self
        failed = (row.failed for row in rows if row.failed and row.outcome.is_failure)
        first = next(failed, None)
        return dataclasses.replace(self, signature=first.signature) if first else self


def why_unknown(row: Observation) -> str:
    """Say why a cell that was measured answers nothing: `fails differently (KeyError: 'x')`."""
    if row.unstable:
        return f"is disputed: {dispute(row)}" if row.sides else f"is unstable: {row.described}"
    if row.reading is Reading.SILENT and row.outcome.reading is Reading.GOOD:
        return f"passes without computing in {row.cell.precision}"
    if row.outcome.is_failure:
        place = f", in {row.failed.place}" if row.failed and row.failed.place else ""
        return f"fails differently ({row.headline}{place})"
    return row.described
