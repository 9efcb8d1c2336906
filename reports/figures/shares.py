"""Counts as the parts of one bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

WIDTH = 240


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One of the counts: its part of the bar, and which of the patterns it is drawn in."""

    name: str
    x: float
    width: float
    pattern: int


def shares(counts: Mapping[str, int]) -> tuple[Part, ...]:
    """Return the parts of a bar, in the order of the counts; what was never counted has none."""
    return tuple(_parts(counts))


def _parts(counts: Mapping[str, int]) -> Iterator[Part]:
    total, x = sum(counts.values()), 0.0
    for pattern, (name, count) in enumerate(counts.items()):
        if count:
            width = WIDTH * count / total
            yield Part(name=name, x=round(x, 1), width=round(width, 1), pattern=pattern % 5)
            x += width
