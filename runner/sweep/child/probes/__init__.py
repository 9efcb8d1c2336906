"""The probes: what must hold of every architecture, each with an oracle that needs no release."""

from __future__ import annotations

from typing import Any


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run the probes of a request on its recipe; return a record of each."""
    raise NotImplementedError(request)
