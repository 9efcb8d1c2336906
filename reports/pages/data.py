"""The page of everything that can be downloaded or embedded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repromatrix.reports.exports import osv
from repromatrix.reports.text import Link, in_address, in_path, page_of, visible

if TYPE_CHECKING:
    from repromatrix.reports.exports.badges import Badge
    from repromatrix.reports.site import Published

_AUDIT = "uvx --refresh --from git+{} repromatrix audit uv.lock"


@dataclass(frozen=True, kw_only=True, slots=True)
class BadgeRow:
    """A badge, the page that it leads to, and the Markdown that embeds it."""

    badge: Link
    endpoint: str
    page: Link
    markdown: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DataPage:
    """Entries of the OSV format, feeds and badges; the template has the tables."""

    command: str
    """Audits a lock from what the repository publishes; empty where its address is unknown."""
    entries: tuple[Link, ...]
    feeds: tuple[Link, ...]
    badges: tuple[BadgeRow, ...]


def data_page(
    entries: Sequence[Mapping[str, Any]],
    feeds: Iterable[Link],
    badges: Iterable[Badge],
    published: Published,
) -> DataPage:
    """Return the page; without the address of the site, badges have none."""
    return DataPage(
        command=_AUDIT.format(published.source) if published.source else "",
        entries=tuple(Link(text=one["summary"], href=osv.path_of(one)) for one in entries),
        feeds=tuple(feeds),
        badges=tuple(_badge(badge, published.base_url) for badge in badges),
    )


def _badge(badge: Badge, base_url: str) -> BadgeRow:
    address = in_path(badge.path)
    _, kind, name = badge.path.split("/", 2)
    href = page_of(name) if kind == "case" else f"release/{in_address(name)}.html"
    return BadgeRow(
        badge=Link(text=f"{badge.label}: {badge.message}", href=f"{address}.svg"),
        endpoint=f"{address}.json",
        page=Link(text=badge.label, href=href),
        markdown=f"[![Badge of {visible(name)}]({base_url}{address}.svg)]({base_url}{href})",
    )
