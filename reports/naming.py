"""Foreign names as names of files: no folder among them, and none too long."""

from __future__ import annotations

import hashlib

from reports.phrases import Link, in_address, visible

_NAME = 80


def filed(name: str) -> str:
    """Return a foreign name as the name of a file."""
    safe = in_address(name).replace("%", "-")
    if safe == name and len(name) <= _NAME and not name.startswith("."):
        return name
    return f"{safe[:_NAME].lstrip('.')}-{hashlib.sha256(repr(name).encode()).hexdigest()[:8]}"


def family_path(model: str) -> str:
    """Return where the page of a family of models lies, below the first page."""
    return f"model/{filed(model)}.html"


def link_to_family(model: str) -> Link:
    """Return the link to the page of a family of models, from the first page."""
    return Link(text=visible(model), href=f"model/{in_address(filed(model))}.html")
