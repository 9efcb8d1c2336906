"""What each release breaks and fixes against the one before it, computed once for all pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from repromatrix.reports.exports.rows import ExportTable
from repromatrix.reports.sections.failures import of_any_half, sort_of
from repromatrix.reports.sections.history import link_to_commit, recorded
from repromatrix.reports.text import Link, kinds, number, page_of, shortened, visible
from repromatrix.reports.view import Survey, once_of_a_survey
from repromatrix.runner.compare.diff import (
    CellChange,
    CellDifference,
    Rows,
    compare,
    without_environment,
)
from repromatrix.runner.evidence.commits import commit_at
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome, Precision, Reading
from repromatrix.runner.text import join

_ERROR = 160
SHOWN = (CellChange.BROKE, CellChange.FIXED, CellChange.CHANGED, CellChange.NEW, CellChange.GONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseDifference:
    """One variant of a case that changed, with the precisions that changed alike."""

    change: CellChange
    case: str
    title: str
    href: str
    workaround: str
    precisions: str
    device: str
    before: str
    after: str
    pulls: tuple[Link, ...] = ()
    """Those on record for what failed before."""
    commits: tuple[Link, ...] = ()
    """Those that were measured to make the change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """A measured number that moved though both sides pass."""

    case: str
    href: str
    workaround: str
    precision: Precision
    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Between:
    """A release compared with the one before it.

    `unknown` counts cells without a result, `unmeasured` those that one of them alone was asked.
    """

    before: str
    differences: tuple[ReleaseDifference, ...]
    shifts: tuple[Shift, ...]
    unknown: int
    unmeasured: int

    def of(self, *changes: CellChange) -> tuple[ReleaseDifference, ...]:
        """Return the differences of some kinds."""
        return tuple(one for one in self.differences if one.change in changes)


@once_of_a_survey
def between(survey: Survey) -> dict[str, Between]:
    """Return for every release but the first what became of each cell since the one before."""
    by_release = sides(survey)
    steps = dict(zip(survey.line[1:], survey.line, strict=False))
    # A `main` between two releases is compared with the one before it.
    steps |= {
        after: before for before, after in pairwise(survey.releases) if after not in survey.line
    }
    return {
        after: compared(survey, steps[after], by_release[steps[after]], by_release[after])
        for after in survey.releases
        if after in steps
    }


@once_of_a_survey
def sides(survey: Survey) -> dict[str, Rows]:
    """Return what is known of each cell, by the release in whose column it stands."""
    found: dict[str, dict[Cell, Observation]] = {name: {} for name in survey.releases}
    for cell, row in survey.rows.items():
        side = found.get(survey.column_of[cell.environment])
        if side is not None:
            side[without_environment(cell)] = row.seen
    return {**found}


def compared(survey: Survey, name: str, before: Rows, after: Rows) -> Between:
    """Return what became of each cell between two releases; `name` is that of the older one."""
    # Most cells are alike, and what is alike needs no comparison.
    cells = sorted(
        cell for cell in {**before, **after} if not _alike(before.get(cell), after.get(cell))
    )
    one, other = ({cell: rows[cell] for cell in cells if cell in rows} for rows in (before, after))
    found = compare(one, other, survey.cases)
    counts = Counter(difference.change for difference in found)
    return Between(
        before=name,
        differences=_differences(survey, found),
        shifts=tuple(
            Shift(
                case=visible(difference.cell.case),
                href=page_of(difference.cell.case),
                workaround=visible(difference.cell.workaround),
                precision=difference.cell.precision,
                name=visible(moved.name),
                before=number(moved.before),
                after=number(moved.after),
            )
            for difference in found
            for moved in difference.moved
        ),
        unknown=counts[CellChange.UNKNOWN],
        unmeasured=counts[CellChange.UNMEASURED],
    )


def _alike(one: Observation | None, other: Observation | None) -> bool:
    return (
        one is not None
        and other is not None
        and one.outcome is other.outcome
        and one.failed == other.failed
        and one.exercised is other.exercised
        and one.reading is not Reading.UNKNOWN
        and other.reading is not Reading.UNKNOWN
        and one.measured == other.measured
    )


def _differences(survey: Survey, found: Iterable[CellDifference]) -> tuple[ReleaseDifference, ...]:
    alike: dict[tuple[CellChange, str, str, str, str, str], list[Precision]] = {}
    pulls: dict[tuple[CellChange, str], tuple[Link, ...]] = {}
    commits: dict[tuple[CellChange, str, str, str, str, str], dict[Link, None]] = {}
    for one in found:
        if one.change in SHOWN:
            of = one.change, one.cell.case
            seen = () if one.before is None or one.change is not CellChange.FIXED else (one.before,)
            more = recorded(survey, survey.cases[one.cell.case], [row.cell for row in seen])
            pulls[of] = tuple(dict.fromkeys([*pulls.get(of, ()), *more]))
            cell, sides = one.cell, (told(one.before), told(one.after))
            key = one.change, cell.case, cell.workaround, cell.device.value, *sides
            alike.setdefault(key, []).append(cell.precision)
            commits.setdefault(key, {}).update(dict.fromkeys(_commit(survey, one)))
    ordered = sorted(alike.items(), key=lambda item: (SHOWN.index(item[0][0]), *item[0][1:]))
    return tuple(
        ReleaseDifference(
            change=change,
            case=visible(case),
            title=visible(survey.cases[case].block.title),
            href=page_of(case),
            workaround=visible(workaround),
            precisions=join([one.value for one in Precision if one in precisions]),
            device=device,
            before=before,
            after=after,
            pulls=pulls[change, case],
            commits=tuple(commits[key]),
        )
        for key, precisions in ordered
        for change, case, workaround, device, before, after in [key]
    )


def _commit(survey: Survey, found: CellDifference) -> Iterator[Link]:
    """Yield the commit that was measured to break or to fix a cell, where it is known."""
    change = {CellChange.BROKE: "break", CellChange.FIXED: "fix"}.get(found.change)
    if change and found.before and found.after:
        before = found.before.cell.environment
        commit = commit_at(survey.commits, found.after.cell, change, before)
        if commit:
            yield link_to_commit(commit)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeStep:
    """What the cells of one variant showed before and now."""

    workaround: str
    precisions: str
    device: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseChange:
    """What became of one case."""

    case: str
    title: str
    href: str
    sort: str
    """`error`, `silent` or `intended`."""
    kinds: tuple[str, ...]
    pulls: tuple[Link, ...]
    commits: tuple[Link, ...]
    steps: tuple[ChangeStep, ...]


def by_case(survey: Survey, differences: Iterable[ReleaseDifference]) -> tuple[CaseChange, ...]:
    """Return differences by case; names of half precisions do not part what is alike."""
    found: dict[str, list[ReleaseDifference]] = {}
    for one in differences:
        found.setdefault(one.case, []).append(one)
    return tuple(
        CaseChange(
            case=name,
            title=every[0].title,
            href=every[0].href,
            sort=sort_of(survey.cases[name]),
            kinds=kinds(survey.cases[name]),
            pulls=tuple(dict.fromkeys(pull for one in every for pull in one.pulls)),
            commits=tuple(dict.fromkeys(commit for one in every for commit in one.commits)),
            steps=tuple(_steps(every)),
        )
        for name, every in found.items()
    )


def _steps(differences: Iterable[ReleaseDifference]) -> Iterator[ChangeStep]:
    alike: dict[tuple[str, str, str, str], list[ReleaseDifference]] = {}
    for one in differences:
        before, after = map(of_any_half, (one.before, one.after))
        alike.setdefault((one.workaround, one.device, before, after), []).append(one)
    for (workaround, device, *_), every in alike.items():
        named = {word for one in every for word in re.findall(r"\w+\d", one.precisions)}
        yield ChangeStep(
            workaround=workaround,
            precisions=join([one.value for one in Precision if one.value in named]),
            device=device,
            before=every[0].before,
            after=every[0].after,
        )


def told(seen: Observation | None) -> str:
    """Return what happened in a few words: the error of a failure, else the outcome."""
    if seen is None:
        return Outcome.NOT_MEASURED.verb
    if seen.failed is not None and seen.outcome.is_failure:
        return shortened(seen.failed.headline, _ERROR)
    reason = shortened(seen.reason, _ERROR)
    return f"{seen.outcome.verb}: {reason}" if reason else seen.outcome.verb


def changes_table(path: str, steps: Mapping[str, Between]) -> ExportTable:
    """Return every difference as a table: the release, and how each cell changed."""
    own = ("change", "case", "workaround", "precisions", "device", "before", "after")
    values = attrgetter(*own)
    rows = (
        (release, step.before, *values(difference))
        for release, step in steps.items()
        for difference in step.differences
    )
    return ExportTable(path=path, columns=("release", "against", *own), rows=tuple(rows))
