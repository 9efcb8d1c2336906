"""The page of everything that can be downloaded or embedded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repromatrix.reports.exports import osv
from repromatrix.reports.text import Link, in_address, in_path, page_of, visible

if TYPE_CHECKING:
    from repromatrix.reports.exports.badges import Badge
    from repromatrix.reports.site import Published

_AUDIT = "uvx --refresh --from git+{} repromatrix audit uv.lock"


def data_page(
    entries: Sequence[Mapping[str, Any]],
    feeds: Iterable[Link],
    badges: Iterable[Badge],
    published: Published,
) -> dict[str, Any]:
    """Return entries of the OSV format, feeds and badges; the template has the tables.

    `command` audits a lock from what the repository publishes; it is empty where its address is
    unknown. Without the address of the site, badges have none.
    """
    return {
        "command": _AUDIT.format(published.source) if published.source else "",
        "entries": [Link(text=one["summary"], href=osv.path_of(one)) for one in entries],
        "feeds": [*feeds],
        "badges": [_badge(badge, published.base_url) for badge in badges],
    }


def _badge(badge: Badge, base_url: str) -> dict[str, Any]:
    """Return a badge, the page that it leads to, and the Markdown that embeds it."""
    address = in_path(badge.path)
    _, kind, name = badge.path.split("/", 2)
    href = page_of(name) if kind == "case" else f"release/{in_address(name)}.html"
    return {
        "badge": Link(text=f"{badge.label}: {badge.message}", href=f"{address}.svg"),
        "endpoint": f"{address}.json",
        "page": Link(text=badge.label, href=href),
        "markdown": f"[![Badge of {visible(name)}]({base_url}{address}.svg)]({base_url}{href})",
    }
