"""Which architectures a release has."""

from __future__ import annotations

from typing import Any


def types() -> dict[str, Any]:
    """Return the types of config that have a model class, with their classes by mapping."""
    raise NotImplementedError
