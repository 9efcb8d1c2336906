"""What publications changed as an Atom feed: an entry per case, one for each publication."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from markupsafe import escape

from reports.phrases import counted, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reports.pages.changes import Act, ChangesPage, Step
    from reports.publishing import Published

_ATOM = "http://www.w3.org/2005/Atom"
_NEVER = "1970-01-01"
_KEPT = 200
"""Entries, the newest: who reads a feed has seen the others, and the page has them all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry; `href` is an address from the first page."""

    title: str
    href: str
    date: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """The feed; its newest entry says when it was updated."""

    title: str
    base_url: str
    updated: str
    entries: tuple[Entry, ...]


def feed(page: ChangesPage, published: Published, setting: Iterable[str]) -> Feed:
    """Return the feed of what the page of changes shows, and of the newest publication."""
    told = " ".join(setting)
    every = (entry for act in page.acts for entry in _entries(act, told))
    entries = tuple(islice(every, _KEPT))
    newest = published.newest
    if newest is not None and not entries:
        title = f"Publication {visible(newest.name)}"
        text = f"{page.begins} {told}"
        entries = (Entry(title=title, href="changes.html", date=newest.date, text=text),)
    return Feed(
        title="repromatrix: precision bugs by release of transformers",
        base_url=published.base_url,
        updated=entries[0].date if entries else _NEVER,
        entries=entries,
    )


def _entries(act: Act, told: str) -> Iterator[Entry]:
    number = counted(len(act.steps), "change") if act.steps else "no change"
    counts = [f"{kind.change}: {kind.says}" for kind in act.kinds]
    counts += [f"new: {act.new.says}"] if act.new.says else []
    counts += [f"gone: {act.gone.says}"] if act.gone.says else []
    yield Entry(
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


def _of_case(act: Act, case: str, href: str, steps: list[Step], told: str) -> Entry:
    kinds = ", ".join(dict.fromkeys(step.change.value for step in steps))
    lines = [
        f"{step.change}: {step.precision}{f' with {step.workaround}' if step.workaround else ''}"
        f" on {step.releases}: {step.before} → {step.after}"
        for step in steps
    ]
    return Entry(
        title=f"{case}: {kinds}",
        href=href or f"changes.html#{act.anchor}",
        date=act.date,
        text="\n".join([*lines, told]),
    )


def written(feed: Feed) -> bytes:
    """Return the feed as Atom; without an address its links are relative, its names its own."""
    ET.register_namespace("", _ATOM)
    root = ET.Element(f"{{{_ATOM}}}feed")
    _add(root, "title", feed.title)
    _add(root, "id", _name(feed.base_url, "feed.xml", feed.title))
    _add(root, "updated", f"{feed.updated}T00:00:00Z")
    _add(_add(root, "author"), "name", "repromatrix")
    _add(root, "link", rel="self", href=f"{feed.base_url}feed.xml")
    _add(root, "link", href=f"{feed.base_url}changes.html")
    for entry in feed.entries:
        _entry(root, feed.base_url, entry)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _entry(root: ET.Element, base_url: str, entry: Entry) -> None:
    node = _add(root, "entry")
    _add(node, "title", entry.title)
    _add(node, "id", _name(base_url, f"{entry.date} {entry.title}", entry.href))
    _add(node, "updated", f"{entry.date}T00:00:00Z")
    _add(node, "link", href=f"{base_url}{entry.href}")
    # Readers of feeds run the lines of a plain text together.
    lines = "".join(f"<p>{escape(line)}</p>" for line in entry.text.splitlines())
    _add(node, "content", lines, type="html")


def _name(*parts: str) -> str:
    """Return a name that stays the same as long as what it names does."""
    return uuid.uuid5(uuid.NAMESPACE_URL, " ".join(map(_sound, parts))).urn


def _add(parent: ET.Element, tag: str, text: str = "", **attributes: str) -> ET.Element:
    node = ET.SubElement(parent, f"{{{_ATOM}}}{tag}", attributes)
    node.text = _sound(text) or None
    return node


def _sound(text: str) -> str:
    """Take out what no XML may hold: halves of characters and two that are none."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole.translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})
