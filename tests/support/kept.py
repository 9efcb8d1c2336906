"""Texts that lie beside the tests: what an answer reads like, under the heading of each example.

`pytest --regenerate` writes there what is said now: a new wording is a diff to review.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Expected = Callable[[str, Mapping[str, str]], None]
"""Holds texts against those of a file (the fixture `expected`)."""
_EXAMPLE = re.compile(r"(?ms)^## ([^\n]+)\n\n````text\n(.*?)^````\n")


def read(path: Path) -> dict[str, str]:
    """Return the texts by their headings."""
    return dict(_EXAMPLE.findall(path.read_text("utf-8"))) if path.exists() else {}


def write(path: Path, texts: Mapping[str, str]) -> None:
    """Write texts; each of them ends with a line break."""
    parts = [f"## {title}\n\n````text\n{text}````\n" for title, text in texts.items()]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(parts), "utf-8")
