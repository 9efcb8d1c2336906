"""Tiny configs and inputs for an architecture, found without knowledge of single models."""

from __future__ import annotations

from typing import Any


def make(request: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe for a type, or why there is none."""
    raise NotImplementedError(request)
