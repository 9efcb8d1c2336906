"""The two pieces of a page that no template writes: thousands of cells, and what they say."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reports.grid import Grid, Stack


def cells(stacks: Iterable[Stack]) -> Markup:
    """Write the cells of a row; HTML lets the end of a cell be left out."""
    # Joined as plain strings: Markup would look at each of them again.
    return Markup("".join(map(_cell, stacks)))  # noqa: S704 - escaped below


@lru_cache(maxsize=4096)
def _cell(stack: Stack) -> str:
    rule = ' class="o"' if stack.opens else ""
    says = f' data-says="{escape(stack.says)}"' if stack.says else ""
    marks = "".join(
        f'<i class="{escape(mark.style)}">{escape(mark.glyph)}</i>' for mark in stack.marks
    )
    return f"<td{rule}{says}>{marks}"


def said(grid: Grid) -> dict[str, object]:
    """Return what `grid.js` makes the words of a mark from; `tojson` escapes it for a page."""
    words = grid.words
    return {"usual": words.usual, "texts": words.texts, "device": words.device}
