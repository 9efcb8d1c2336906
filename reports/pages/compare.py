"""The page that compares any two releases, and its data: what each cell says on every release.

What two answers mean is decided here, by the comparison of `diff`: the page looks it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from repromatrix.reports.exports.matrix_js import Numbered, folded
from repromatrix.reports.pages.release import ReleasePage
from repromatrix.reports.sections.failures import of_any_half, sort_of
from repromatrix.reports.sections.release_changes import SHOWN, sides, told
from repromatrix.reports.sections.status import columns
from repromatrix.reports.text import kinds, page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.compare.diff import (
    CellChange,
    Kind,
    answer,
    by_answers,
    kind,
    without_environment,
)
from repromatrix.runner.judging.counts import Bug, BugState
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Precision, Reading

BOTH = "both"
"""What fails on both sides in the same way, beside the changes of cells."""

_TITLES = {
    CellChange.BROKE: "What broke",
    CellChange.FIXED: "What is fixed",
    CellChange.CHANGED: "What fails in another way",
    BOTH: "What fails in both",
    CellChange.NEW: "Newly applicable",
    CellChange.GONE: "No longer applicable",
}


def compare(releases: Sequence[ReleasePage]) -> dict[str, Any]:
    """Return the releases, newest first, and the two that are compared before somebody chooses.

    `releases` come oldest first.
    """
    judged = [page.name for page in releases if page.judged] or [page.name for page in releases]
    return {
        "releases": [*reversed(releases)],
        "before": judged[-2] if len(judged) > 1 else "",
        "after": judged[-1] if judged else "",
    }


Said = tuple[int, int, str, int]
"""The number of a reading, the number of a kind, a text, and the number of texts like it."""


def compare_data(survey: Survey) -> dict[str, Any]:
    """Return what every cell says on every release, and what two answers mean.

    `changes` has by the readings of both sides the change where the kinds are the same, and where
    they are not; `titles` are the changes that are shown, in their order.
    """
    pen = _Pen(survey)
    cases = [pen.case(case) for case in survey.cases.values()]
    return {
        "releases": [*map(visible, survey.releases)],
        "precisions": [*Precision],
        "changes": [[_meaning(one, other) for other in Reading] for one in Reading],
        "titles": _TITLES,
        "order": SHOWN,
        "said": pen.said.values,
        "cases": cases,
    }


def _meaning(before: Reading, after: Reading) -> tuple[str, str]:
    known = by_answers(before, after)
    if known is not None:
        return known, known
    return BOTH if before is Reading.BAD else CellChange.SAME, CellChange.CHANGED


class _Pen:
    """Writes rows; what was said before is a number."""

    def __init__(self, survey: Survey) -> None:
        self.said: Numbered[Said] = Numbered()
        self._survey = survey
        self._sides = sides(survey)
        self._kinds: Numbered[Kind] = Numbered()
        self._texts: Numbered[str] = Numbered()
        self._readings = {reading: number for number, reading in enumerate(Reading)}

    def case(self, case: Case) -> dict[str, Any]:
        """Return a case with a row for every variant, device and precision."""
        numbers: dict[object, int] = {}  # neighbouring releases say the same
        return {
            "name": visible(case.name),
            "title": visible(case.block.title),
            "href": page_of(case.name),
            "sort": sort_of(case),
            "kinds": kinds(case),
            "bugs": [
                self._states(bug) for bug in self._survey.bugs(case.name) if not bug.is_intended
            ],
            "rows": [
                {
                    "workaround": visible(cell.workaround),
                    "device": cell.device,
                    "precision": cell.precision,
                    "said": folded(self._along(case, cell, numbers)),
                }
                for device in self._survey.devices_of(case.name)
                for workaround in case.branches
                for precision in Precision
                for cell in [Cell(case.name, workaround, "", precision, device)]
            ],
        }

    def _states(self, bug: Bug) -> str:
        """Return a letter for each release: open, passing, or neither."""
        of, known = columns(self._survey), {BugState.OPEN: "o", BugState.PASSING: "p"}
        states = (bug.state(of[release]) for release in self._survey.releases)
        return "".join(known.get(state, "-") if state else "-" for state in states)

    def _along(self, case: Case, cell: Cell, numbers: dict[object, int]) -> Iterator[int]:
        cell = without_environment(cell)
        for release in self._survey.releases:
            seen = self._sides[release].get(cell)
            facts = seen and (seen.outcome, id(seen.failed), seen.reason, seen.reading)
            if facts not in numbers:
                numbers[facts] = self._number(case, seen, cell)
            yield numbers[facts]

    def _number(self, case: Case, seen: Observation | None, cell: Cell) -> int:
        text = told(seen)
        alike = self._texts.number(of_any_half(text))
        number = -1 if seen is None else self._kinds.number(kind(case, seen))
        return self.said.number((self._readings[answer(seen, cell)], number, text, alike))
