"""What publications changed as an Atom feed: an entry per case, one for each publication."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from repromatrix.reports.drawing import drawn_xml, whole
from repromatrix.reports.text import visible
from repromatrix.runner.text import plural

if TYPE_CHECKING:
    from repromatrix.reports.build import Published
    from repromatrix.reports.pages.changes import Act, ChangesPage, Step

_NEVER = "1970-01-01"
_KEPT = 200
"""The newest entries; the page of changes has them all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedEntry:
    """One entry; `href` is an address from the first page."""

    title: str
    href: str
    date: str
    text: str

    def id(self, base_url: str) -> str:
        """Return a name that no other entry of any site has."""
        return _name(base_url, f"{self.date} {self.title}", self.href)


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """The feed; its newest entry says when it was updated."""

    title: str
    base_url: str
    updated: str
    entries: tuple[FeedEntry, ...]

    @property
    def id(self) -> str:
        """The name of the feed: that of no other site."""
        return _name(self.base_url, "feed.xml", self.title)


def feed(page: ChangesPage, published: Published, setting: Iterable[str]) -> Feed:
    """Return the feed of what the page of changes shows, and of the newest publication."""
    told = " ".join(setting)
    every = (entry for act in page.acts for entry in _entries(act, told))
    entries = tuple(islice(every, _KEPT))
    newest = published.newest
    if newest is not None and not entries:
        title = f"Publication {visible(newest.name)}"
        text = f"{page.begins} {told}"
        entries = (FeedEntry(title=title, href="changes.html", date=newest.date, text=text),)
    return Feed(
        title="repromatrix: precision bugs by release of transformers",
        base_url=published.base_url,
        updated=entries[0].date if entries else _NEVER,
        entries=entries,
    )


def _entries(act: Act, told: str) -> Iterator[FeedEntry]:
    number = plural(len(act.steps), "change") if act.steps else "no change"
    counts = [f"{kind.change}: {kind.says}" for kind in act.kinds]
    counts += [f"new: {act.new.says}"] if act.new.says else []
    counts += [f"gone: {act.gone.says}"] if act.gone.says else []
    yield FeedEntry(
        title=f"Publication {act.name}: {number}",
        href=f"changes.html#{act.anchor}",
        date=act.date,
        text="\n".join([f"Compared with {act.against}.", *counts, told]),
    )
    cases: dict[tuple[str, str], list[Step]] = {}
    for step in act.steps:
        cases.setdefault((step.case, step.href), []).append(step)
    for case, found in cases.items():
        yield _of_case(act, *case, found, told)


def _of_case(act: Act, case: str, href: str, steps: list[Step], told: str) -> FeedEntry:
    kinds = ", ".join(dict.fromkeys(step.change.value for step in steps))
    lines = [
        f"{step.change}: {step.precision}{f' with {step.workaround}' if step.workaround else ''}"
        f" on {step.releases}: {step.before} → {step.after}"
        for step in steps
    ]
    return FeedEntry(
        title=f"{case}: {kinds}",
        href=href or f"changes.html#{act.anchor}",
        date=act.date,
        text="\n".join([*lines, told]),
    )


def _name(*parts: str) -> str:
    """Return an identifier that depends on these parts alone."""
    return uuid.uuid5(uuid.NAMESPACE_URL, whole(" ".join(parts))).urn


def written(feed: Feed) -> bytes:
    """Return the feed as Atom; without an address its links are relative, its names its own."""
    return drawn_xml("feed.xml.jinja", page=feed)
