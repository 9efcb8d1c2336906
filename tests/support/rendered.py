"""What a test reads from the files of a site."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from pathlib import Path


class Markup(HTMLParser):
    """The elements of a page with their attributes, and the data in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.data: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1] == ("script", {"type": "application/json"}):
            self.data.append(data)


def pages(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def broken_links(folder: Path) -> set[tuple[str, str]]:
    """Return the pages of a site with the links that lead to no file, or to no place in one."""
    markup = {path: Markup(path.read_text()).found for path in folder.rglob("*.html")}
    anchors = {
        path.resolve(): {attributes["id"] for _, attributes in found if "id" in attributes}
        for path, found in markup.items()
    }
    links = {
        (
            path.resolve(),
            path.parent.joinpath(unquote(address)).resolve() if address else path.resolve(),
            anchor,
        )
        for path, found in markup.items()
        if path.name != "404.html"  # its links begin with the address of the site
        for _, attributes in found
        for key in ("href", "src")
        for address, _, anchor in [attributes.get(key, "").partition("#")]
        if key in attributes and not address.startswith(("https:", "data:"))
    }
    return {
        (path.name, f"{target.name}#{anchor}")
        for path, target, anchor in links
        if not target.exists()
        or (anchor and "=" not in anchor and unquote(anchor) not in anchors.get(target, anchor))
    }
