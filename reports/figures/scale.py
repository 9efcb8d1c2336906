"""Where things stand along a figure: releases from left to right, names where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEP = 10
"""The width of one release."""
LEFT = 190
"""The room for names on the left."""
_ROOM = 44
"""The least distance between the names of two lines of releases."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A name below or above the figure, and where it stands."""

    x: int
    label: str


def at(place: int) -> int:
    """Return where a release begins."""
    return LEFT + place * STEP


def ticks(names: Sequence[str]) -> tuple[Tick, ...]:
    """Name the first release of each minor line, where there is room for it."""
    found: list[Tick] = []
    known = ""
    for place, name in enumerate(names):
        line = ".".join(name.split(".")[:2])
        if line != known and (not found or at(place) - found[-1].x >= _ROOM):
            found.append(Tick(x=at(place), label=line))
        known = line
    return tuple(found)
