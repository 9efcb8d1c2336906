"""A page as an outline: a line per block with what stands in it, indented as they are nested.

What is the same on every page (its head, the navigation, the footer) is left out.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

INLINE = frozenset({"a", "b", "code", "i", "em", "img", "small", "span", "strong", "time"})
VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
CELLS = frozenset({"td", "th"})
SAME = frozenset({"head", "nav", "footer"})
AS_IT_STANDS = frozenset({"pre", "script", "textarea"})


class Outline(HTMLParser):
    """The lines of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        text = " ".join([tag, *_written(attrs)])
        if tag in CELLS and self.open[-1:] and self.open[-1] in CELLS:
            self.open.pop()  # a cell of a table ends where the next one begins
        if self._is_hidden() or tag in SAME:
            pass
        elif tag in INLINE and self.lines:
            self.lines[-1] += f"<{text}>"
        else:
            self.lines.append(f"{' ' * len(self._blocks())}<{text}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass
        if tag in INLINE and not self._is_hidden():
            self.lines[-1] += f"</{tag}>"

    def handle_data(self, data: str) -> None:
        if self._is_hidden() or not data.strip():
            return
        if self.open and self.open[-1] in AS_IT_STANDS:
            inside = "\n".join(
                " " * len(self._blocks()) + line for line in data.strip().splitlines()
            )
            self.lines[-1] += f"\n{inside}"
        else:
            first, last = data[:1].isspace(), data[-1:].isspace()
            self.lines[-1] += f"{' ' * first}{' '.join(data.split())}{' ' * last}"

    def _is_hidden(self) -> bool:
        return not SAME.isdisjoint(self.open)

    def _blocks(self) -> list[str]:
        return [tag for tag in self.open if tag not in INLINE]


def _written(attrs: Iterable[tuple[str, str | None]]) -> Iterable[str]:
    return (name if value is None else f'{name}="{value}"' for name, value in attrs)


def outline(page: str) -> str:
    """Return the outline of a page."""
    lines = [line.rstrip() for line in "\n".join(Outline(page).lines).splitlines()]
    return "\n".join(line for line in lines if line.strip()) + "\n"
