"""Tables that a program writes into a document, each in its own place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put(page: Path, place: str, table: str) -> bool:
    """Put a table between `<!-- place -->` and the next `<!-- end -->`; say whether they are."""
    found = re.compile(rf"(?s)(<!-- {re.escape(place)} -->\n).*?(<!-- end -->)")
    text = page.read_text()
    if not found.search(text):
        return False
    page.write_text(found.sub(lambda one: f"{one[1]}{table}\n{one[2]}", text))
    return True
