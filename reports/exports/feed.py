"""News as Atom feeds: new cases, and what broke or was fixed, in a release or measured again."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from repromatrix.reports.drawing import drawn_xml, whole
from repromatrix.reports.pages.release import address_of
from repromatrix.reports.text import page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.cell import Source
from repromatrix.runner.text import join

if TYPE_CHECKING:
    from repromatrix.reports.pages.changes import Act, ChangesPage, Step
    from repromatrix.reports.sections.release_changes import Between, ReleaseDifference
    from repromatrix.reports.site import Published

MAIN = "feed.xml"
_NEVER = "1970-01-01"
_MOST, _FEW = 100, 20
"""The newest entries of all news, and of a page; pages have them all."""
_SAID = {
    CellChange.BROKE: "Broken",
    CellChange.FIXED: "Fixed",
    CellChange.CHANGED: "Fails in another way",
}


class _Dates(NamedTuple):
    """The days on which cases and columns of the table were first published."""

    cases: Mapping[str, str]
    columns: Mapping[str, str]

    def of(self, case: str, column: str) -> str:
        """Return the day on which a case was first published in a column, or nothing."""
        days = self.cases.get(case, ""), self.columns.get(column, "")
        return max(days) if all(days) else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedEntry:
    """One entry about one case; `href` is an address from the first page."""

    key: str
    """What it is about: two entries differ in it, wherever and whenever the site is drawn."""
    case: str
    title: str
    href: str
    date: str
    text: str

    @property
    def id(self) -> str:
        """The name of the entry, the same wherever the site lies."""
        return _name(self.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """A feed; `path` is its file, and `href` the address of its page, from the first page."""

    path: str
    title: str
    href: str
    base_url: str
    updated: str
    entries: tuple[FeedEntry, ...]

    @property
    def id(self) -> str:
        """The name of the feed, the same wherever the site lies."""
        return _name(self.path)

    @property
    def root(self) -> str:
        """What leads to the first page: the address of the site, or the way there from the file."""
        return self.base_url or "../" * self.path.count("/")


def entries(
    survey: Survey,
    steps: Mapping[str, Between],
    page: ChangesPage,
    published: Published,
    setting: str,
) -> tuple[FeedEntry, ...]:
    """Return all news, newest first; `setting` says on what everything was measured."""
    dates = _dates(survey, published)
    found = [
        *(entry for act in page.acts for entry in _measured_again(act, setting)),
        *_new_cases(survey, dates, setting),
        *_releases(survey, steps, dates, setting),
    ]
    return tuple(sorted(found, key=attrgetter("date"), reverse=True))


def feed(
    found: Iterable[FeedEntry],
    published: Published,
    *,
    path: str = MAIN,
    title: str = "precision bugs by release of transformers",
    href: str = "changes.html",
) -> Feed:
    """Return the feed of the newest entries."""
    picked = [*islice(found, _MOST if path == MAIN else _FEW)]
    newest = published.newest.date if published.newest else _NEVER
    return Feed(
        path=path,
        title=f"repromatrix: {title}",
        href=href,
        base_url=published.base_url,
        updated=picked[0].date if picked else newest,
        entries=tuple(picked),
    )


def _dates(survey: Survey, published: Published) -> _Dates:
    """Return since when things are known; a cell itself only knows when it was measured last."""
    columns: dict[str, str] = {}
    cells: Counter[str] = Counter()
    for cell, row in survey.rows.items():
        publication = published.publications.get(row.seen.source)
        if publication is not None and row.seen.outcome.is_evidence:
            cells[cell.case] += 1
            column = survey.column_of[cell.environment]
            columns[column] = min(columns.get(column, publication.date), publication.date)
    start = min(columns.values(), default="")
    added: Counter[str] = Counter()
    first: dict[str, str] = {}
    for record in published.records:  # newest first
        added.update(dict(record.new))
        first |= {case: record.date for case, _ in record.new}
    # A case is as new as the cells that snapshots added, where they added all that it has.
    return _Dates(
        cases={case: first[case] if added[case] >= cells[case] else start for case in cells},
        columns=columns,
    )


def _measured_again(act: Act, setting: str) -> Iterator[FeedEntry]:
    """Yield what a publication changed in cells that the one before it had as well."""
    changed: dict[tuple[str, CellChange], list[Step]] = {}
    for step in act.steps:
        changed.setdefault((step.case, step.change), []).append(step)
    for (case, change), steps in changed.items():
        lines = [
            f"{step.precision}{f' with {step.workaround}' if step.workaround else ''}"
            f" on {step.releases}: {step.before} → {step.after}"
            for step in steps
        ]
        yield FeedEntry(
            key=f"{change} {case} measured {act.name}",
            case=case,
            title=f"{_SAID[change]}, measured again: {case}",
            href=steps[0].href or f"changes.html#{act.anchor}",
            date=act.date,
            text="\n".join([*lines, setting]),
        )


def _new_cases(survey: Survey, dates: _Dates, setting: str) -> Iterator[FeedEntry]:
    for name, date in dates.cases.items():
        case = survey.cases[name]
        lines = [
            f"{join(precisions)} ({device}): {'; '.join(ranges)}"
            for device, precisions, ranges in survey.failing_ranges(case)
        ]
        yield FeedEntry(
            key=f"new {name}",
            case=visible(name),
            title=f"New case: {visible(case.block.title)}",
            href=page_of(name),
            date=date,
            text="\n".join([*(lines or ["No measured release fails."]), setting]),
        )


def _releases(
    survey: Survey, steps: Mapping[str, Between], dates: _Dates, setting: str
) -> Iterator[FeedEntry]:
    """Yield what each release broke and fixed against the one before it, newest first."""
    for release in reversed([*steps]):
        changed: dict[tuple[str, CellChange], list[ReleaseDifference]] = {}
        for one in steps[release].of(CellChange.BROKE, CellChange.FIXED):
            if one.workaround == PLAIN and survey.by_name[release].source is Source.RELEASE:
                changed.setdefault((one.case, one.change), []).append(one)
        for (case, change), found in changed.items():
            lines = [f"{one.precisions}: {one.before} → {one.after}" for one in found]
            commits = dict.fromkeys(commit.text for one in found for commit in one.commits)
            lines += [f"{_SAID[change]} by commit {commit}." for commit in commits]
            date = dates.of(case, release)
            if date:
                yield FeedEntry(
                    key=f"{change} {case} in {release}",
                    case=case,
                    title=f"{_SAID[change]} in transformers {release}: {found[0].title}",
                    href=f"{address_of(release)}#{change}",
                    date=date,
                    text="\n".join([*lines, setting]),
                )


def _name(key: str) -> str:
    """Return an identifier that depends on a key alone."""
    return uuid.uuid5(uuid.NAMESPACE_URL, whole(f"repromatrix {key}")).urn


def written(feed: Feed) -> bytes:
    """Return a feed as Atom; without an address of the site its links are relative to its file."""
    return drawn_xml("feed.xml.jinja", page=feed)
