"""Since when the plain case fails, and what fixed it: releases with their dates, pull requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from packaging.version import Version

from repromatrix.reports.sections.status import Standing
from repromatrix.reports.text import Link, in_address, link_to, visible
from repromatrix.reports.view import SeriesKey, Survey
from repromatrix.runner.evidence.commits import PinnedCommit, ends
from repromatrix.runner.evidence.fixes import measured_fixes
from repromatrix.runner.judging.ranges import Affected, Axis, Range, ranges_along
from repromatrix.runner.judging.verdicts import covers, live
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Precision, Reading
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.text import join


@dataclass(frozen=True, kw_only=True, slots=True)
class Milestone:
    """A release, with its date, or another version; `href` is empty where it has no page."""

    name: str
    href: str = ""
    date: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenBy:
    """What a range begins with: a release that broke it, or the first one that can have it."""

    is_known: bool
    """Whether an older release passes, so that this one broke it."""
    at: Milestone
    says: str
    commits: tuple[Link, ...] = ()
    """Those that were measured to break it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedBy:
    """What a range ends with: the first release that passes, and who is on record for it."""

    at: Milestone
    says: str
    pulls: tuple[Link, ...]
    commits: tuple[Link, ...] = ()
    """Those that were measured to fix it."""
    contradicted: tuple[Link, ...] = ()
    """The pull requests on record that none of those belongs to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailingSpan:
    """One range in which the plain case fails, precisions that agree together."""

    precisions: str
    device: str
    first: Milestone
    last: Milestone
    note: str
    """What is unknown within it, or where it was seen; empty for most."""
    origin: BrokenBy
    mend: FixedBy | None
    """None where it is not fixed."""


def history(survey: Survey, case: Case) -> tuple[FailingSpan, ...]:
    """Return the ranges of the plain case: of releases, else of the package that decides."""
    fixes = measured_fixes(case, survey.commits.values(), survey.by_name)
    wrong = {link_to(fix.on_record) for fix in fixes if fix.is_contradicted}
    absent = _absent(survey, case)
    alike: dict[FailingSpan, list[str]] = {}
    for device in survey.devices:
        for precision in Precision:
            for span in _spans(survey, case, (PLAIN, device, precision), absent):
                mend = span.mend
                if mend is not None:
                    contradicted = tuple(pull for pull in mend.pulls if pull in wrong)
                    mend = replace(mend, contradicted=contradicted)
                alike.setdefault(replace(span, mend=mend), []).append(precision.value)
    return tuple(replace(span, precisions=join(found)) for span, found in alike.items())


def _spans(
    survey: Survey, case: Case, key: SeriesKey, absent: AbstractSet[str]
) -> Iterator[FailingSpan]:
    _, device, precision = key
    seen = {name: row.seen for name, row in survey.series(case.name).get(key, {}).items()}

    def pulls(environments: Iterable[str]) -> tuple[Link, ...]:
        return recorded(survey, case, [seen[name].cell for name in environments if name in seen])

    plain = Cell(case.name, PLAIN, "", precision, device)
    bugs = survey.affected(case.name, key)
    others = [bug for bug in bugs if bug.package != TRANSFORMERS]
    for bug in others:
        passing = {
            survey.by_name[name].version(bug.package)
            for name, row in seen.items()
            if row.reading.fails is False
        }
        where = f"seen on {survey.spans([name for name in seen if name in bug.failing])}"
        where += _another(case, [bug.title])
        spans = _of_package(bug, passing, device, where, pulls(bug.failing))
        yield from (_with_commits(survey, plain, bug.package, span) for span in spans)
    ranges = survey.ranges(case.name, key)
    if elsewhere := {name for bug in others for name in bug.failing}:
        alone = {name: row for name, row in seen.items() if name not in elsewhere}
        ranges = tuple(ranges_along(axis, alone) for axis in survey.axes(case.name))
    for axis, failing_ranges in zip(survey.axes(case.name), ranges, strict=True):
        at = {point.label: point.environment for point in axis if point.environment not in absent}
        for span in failing_ranges:
            fixing = pulls(at[label] for label in span.releases)
            found = _of_releases(survey, axis, [*at], span, device, fixing)
            failing = {at[label] for label in span.releases}
            titles = [bug.title for bug in bugs if bug.failing & failing]
            note = (found.note + _another(case, titles)).removeprefix("; ")
            broke, fixed = (
                (link_to_commit(commit, fixing),) if commit else ()
                for commit in ends(survey.commits, plain, axis, span)
            )
            origin = replace(found.origin, commits=broke)
            mend = found.mend and replace(found.mend, commits=fixed)
            yield replace(found, origin=origin, mend=mend, note=note)


def _another(case: Case, titles: Iterable[str]) -> str:
    """Return the bugs among some titles that are not the one of the case's title."""
    others = [title for title in titles if title != case.block.title]
    return "".join(f"; another bug: {visible(title)}" for title in others)


def _with_commits(survey: Survey, plain: Cell, package: str, span: FailingSpan) -> FailingSpan:
    """Return a range of a package's versions with the commits that begin and end it."""

    def commits(change: str, version: str) -> tuple[Link, ...]:
        found = (
            row
            for row in survey.commits.values()
            if row.commit
            and (row.package, row.change) == (package, change)
            and (row.case, row.workaround, row.precision, row.device)
            == (plain.case, plain.workaround, plain.precision, plain.device)
            and survey.by_name[row.at].version(package) == version
        )
        return tuple(dict.fromkeys(map(link_to_commit, found)))

    def version(milestone: Milestone) -> str:
        return milestone.name.rpartition(" ")[2]

    span = replace(
        span, origin=replace(span.origin, commits=commits("break", version(span.origin.at)))
    )
    if span.mend is not None:
        mended = replace(span.mend, commits=commits("fix", version(span.mend.at)))
        span = replace(span, mend=mended)
    return span


def link_to_commit(found: PinnedCommit, beside: Iterable[Link] = ()) -> Link:
    """Return the link to a measured commit, named by its hash, its day and its pull request.

    The pull request is left out where it stands beside it anyway.
    """
    is_named = any(link.href == found.url for link in beside)
    text = f"{found.commit[:12]} ({found.date})" if is_named else found.label
    return Link(text=visible(text), href=found.commit_url)


def recorded(survey: Survey, case: Case, cells: Iterable[Cell]) -> tuple[Link, ...]:
    """Return the pull requests on record for what fails in some cells."""
    held = ((cell, live(case, survey.by_name[cell.environment])) for cell in cells)
    found = (entry.fixed_by for cell, entries in held for entry in entries if covers(entry, cell))
    return tuple(link_to(address) for address in dict.fromkeys(filter(None, found)))


def _absent(survey: Survey, case: Case) -> AbstractSet[str]:
    """Return the environments in which no plain cell of a case can run."""
    readings: dict[str, set[Reading]] = {}
    for (workaround, *_), rows in survey.series(case.name).items():
        for environment, row in rows.items() if workaround == PLAIN else ():
            readings.setdefault(environment, set()).add(row.seen.reading)
    return {name for name, found in readings.items() if found == {Reading.ABSENT}}


def _of_releases(  # noqa: PLR0913, PLR0917 - all that a range depends on
    survey: Survey,
    axis: Axis,
    able: Sequence[str],
    failing: Range,
    device: Device,
    pulls: tuple[Link, ...],
) -> FailingSpan:
    def at(label: str) -> Milestone:
        return _milestone(survey, label)

    mend = None
    if failing.until:
        by = f"after {failing.releases[-1]}, by this one" if failing.unknown_behind else ""
        mend = FixedBy(at=at(failing.until), says=visible(by), pulls=pulls)
    unknown = len(failing.unknown_within)
    return FailingSpan(
        precisions="",
        device=device.value,
        first=at(failing.releases[0]),
        last=at(failing.releases[-1]),
        note=f"{unknown} of these unknown" if unknown else "",
        origin=_origin(survey, axis, able, failing),
        mend=mend,
    )


def _origin(survey: Survey, axis: Axis, able: Sequence[str], failing: Range) -> BrokenBy:
    first = failing.releases[0]
    if failing.after:
        gap = f"after {failing.after}, by this one: those between are unknown"
        says = gap if failing.unknown_before else f"{failing.after} passes"
    elif first != able[0]:
        says = "older ones are unknown"
    elif first != axis[0].label or first in survey.releases[1:]:
        says = "the first one where it can run"
    else:
        says = "the oldest one that is measured"
    return BrokenBy(is_known=bool(failing.after), at=_milestone(survey, first), says=visible(says))


def _milestone(survey: Survey, label: str) -> Milestone:
    return Milestone(
        name=visible(label),
        href=f"release/{in_address(label)}.html" if label in survey.releases else "",
        date=survey.dates.get(label, ""),
    )


def _of_package(
    decides: Affected,
    passing: AbstractSet[str],
    device: Device,
    where: str,
    pulls: tuple[Link, ...],
) -> Iterator[FailingSpan]:
    """Yield the versions of a package that fail, whatever the release of transformers."""

    def at(version: str) -> Milestone:
        return Milestone(
            name=visible(f"{decides.package} {version}"),
            href=f"package/{in_address(decides.package)}.html",
        )

    for interval in decides.intervals:
        first, last = interval.failing[0], interval.failing[-1]
        older = sorted(Version(one) for one in passing if Version(one) < Version(first))
        able = "the first one where it can run" if interval.first else "the oldest that is measured"
        broken = f"{decides.package} {older[-1]} passes" if older else able
        ends = interval.fixed and FixedBy(at=at(interval.fixed), says="", pulls=pulls)
        yield FailingSpan(
            precisions="",
            device=device.value,
            first=at(first),
            last=at(last),
            note=where,
            origin=BrokenBy(is_known=bool(older), at=at(first), says=broken),
            mend=ends or None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseSummary:
    """What the page of a case begins with."""

    standing: Standing
    triggers: tuple[str, ...]
    symptoms: tuple[str, ...]
    history: tuple[FailingSpan, ...]
    pulls: tuple[Link, ...]
    """Those on record for a fix that no measured release has."""
    bugs: tuple[tuple[str, str, str], ...]
    """Each bug: its title where there are several, its scope, and the package at fault."""


def summary(survey: Survey, case: Case, standing: Standing) -> CaseSummary:
    """Return what the page of a case begins with."""
    spans, bugs = history(survey, case), survey.bugs(case.name)
    fixing = {pull for span in spans if span.mend for pull in span.mend.pulls}
    recorded = dict.fromkeys(link_to(one.fixed_by) for one in case.block.fails if one.fixed_by)
    return CaseSummary(
        standing=standing,
        triggers=tuple(trigger.replace("-", " ") for trigger in case.block.triggers),
        symptoms=tuple(symptom.replace("-", " ") for symptom in case.block.symptoms),
        history=spans,
        pulls=tuple(link for link in recorded if link not in fixing),
        bugs=tuple(
            (visible(bug.title) if bugs[1:] else "", bug.scope.value, visible(bug.package))
            for bug in bugs
        ),
    )
