"""The page that compares any two releases, and its data: what each cell says on every release.

What two answers mean is decided here, by the comparison of `diff`: the page looks it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.reports.exports.matrix_js import Folded, Numbered, folded
from repromatrix.reports.pages.release import ReleasePage
from repromatrix.reports.sections.failures import HALF, sort_of
from repromatrix.reports.sections.release_changes import SHOWN, sides, told
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
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision, Reading

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


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparePage:
    """The releases that a reader can choose from, newest first."""

    releases: tuple[ReleasePage, ...]
    before: str
    after: str
    """What is compared before somebody chooses."""


def compare(releases: Sequence[ReleasePage]) -> ComparePage:
    """Return the context of the page; `releases` come oldest first."""
    judged = [page.name for page in releases if page.judged] or [page.name for page in releases]
    return ComparePage(
        releases=tuple(reversed(releases)),
        before=judged[-2] if len(judged) > 1 else "",
        after=judged[-1] if judged else "",
    )


Said = tuple[int, int, str, int]
"""The number of a reading, the number of a kind, a text, and the number of texts like it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRow:
    """The cells of one variant in one precision along the releases, as numbers of what is said."""

    workaround: str
    device: Device
    precision: Precision
    said: Folded


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedCase:
    """A case with its rows."""

    name: str
    title: str
    href: str
    sort: str
    kinds: tuple[str, ...]
    rows: tuple[ComparedRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareData:
    """What the page looks up."""

    releases: tuple[str, ...]
    precisions: tuple[Precision, ...]
    changes: tuple[tuple[tuple[str, str], ...], ...]
    """By the readings of both sides: the change where the kinds are the same, and where not."""
    titles: Mapping[str, str]
    """The changes that are shown, in this order."""
    order: tuple[CellChange, ...]
    said: tuple[Said, ...]
    cases: tuple[ComparedCase, ...]


def compare_data(survey: Survey) -> CompareData:
    """Return what every cell says on every release, and what two answers mean."""
    pen = _Pen(survey)
    cases = tuple(pen.case(case) for case in survey.cases.values())
    return CompareData(
        releases=tuple(map(visible, survey.releases)),
        precisions=tuple(Precision),
        changes=tuple(tuple(_meaning(one, other) for other in Reading) for one in Reading),
        titles=_TITLES,
        order=SHOWN,
        said=pen.said.values,
        cases=cases,
    )


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

    def case(self, case: Case) -> ComparedCase:
        """Return a case with a row for every variant, device and precision."""
        return ComparedCase(
            name=visible(case.name),
            title=visible(case.block.title),
            href=page_of(case.name),
            sort=sort_of(case),
            kinds=kinds(case),
            rows=tuple(
                ComparedRow(
                    workaround=visible(workaround),
                    device=device,
                    precision=precision,
                    said=folded(self._along(case, workaround, device, precision)),
                )
                for device in self._survey.devices_of(case.name)
                for workaround in case.branches
                for precision in Precision
            ),
        )

    def _along(
        self, case: Case, workaround: str, device: Device, precision: Precision
    ) -> Iterable[int]:
        cell = without_environment(Cell(case.name, workaround, "", precision, device))
        for release in self._survey.releases:
            yield self._number(case, self._sides[release].get(cell))

    def _number(self, case: Case, seen: Observation | None) -> int:
        text = told(seen)
        alike = self._texts.number(HALF.sub("half", text))
        number = -1 if seen is None else self._kinds.number(kind(case, seen))
        return self.said.number((self._readings[answer(seen)], number, text, alike))
