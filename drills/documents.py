"""Tables that a program writes into a document, each in its own place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put(page: Path, place: str, table: str) -> bool:
    """Put a table between `<!-- place -->` and the next `<!-- end -->`; say whether they are."""
    found, text = _pattern(place), page.read_text()
    if not found.search(text):
        return False
    page.write_text(found.sub(lambda one: f"{one[1]}{table}\n{one[3]}", text))
    return True


def taken(page: Path, place: str) -> str:
    """Return the table that stands there; nothing where there is none."""
    found = _pattern(place).search(page.read_text())
    return found[2].rstrip("\n") if found else ""


def _pattern(place: str) -> re.Pattern[str]:
    return re.compile(rf"(?s)(<!-- {re.escape(place)} -->\n)(.*?)(<!-- end -->)")
