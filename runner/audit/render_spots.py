"""Cells of an answer grouped by case, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repromatrix.runner.audit.upgrades import Spot
from repromatrix.runner.model.outcomes import Device


def by_case(spots: Iterable[Spot]) -> dict[str, str]:
    """Return the precisions of each case, in words."""
    found: dict[str, list[str]] = {}
    for spot in spots:
        found.setdefault(spot.case, []).append(spot.precision)
    return {name: " ".join(precisions) for name, precisions in found.items()}


def listed(spots: Sequence[Spot], few: int = 3) -> str:
    """Return cases with their precisions, the first few of them."""
    cases = [f"{name} ({precisions})" for name, precisions in by_case(spots).items()]
    more = len(cases) - few
    return ", ".join([*cases[:few], *([f"{more} more"] if more > 0 else [])])


def measured_on(device: Device, torch: Sequence[str], python: Sequence[str]) -> str:
    """Say on what evidence was measured, or that there is none."""
    if not (torch or python):
        return f"nothing is measured on {device.upper()}"
    facts = [device.upper(), *(f"torch {version}" for version in torch)]
    return f"measured on {', '.join([*facts, *(f'Python {version}' for version in python)])}"
