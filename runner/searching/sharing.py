"""Several searches over points that they share: the next point is the one that serves most."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.searching.oracle import Answer
    from runner.searching.transitions import Question

P = TypeVar("P")


class Open(NamedTuple, Generic[P]):
    """A search that still asks: what its points are called, what they said, and its question."""

    points: Sequence[P]
    answers: Mapping[int, Answer]
    question: Question


def gain(search: Open[P], place: int) -> float:
    """Return how much a search learns from one of its points: bits, one for its own question.

    A point at a share p of what is open divides it so: H(p) bits at best.
    """
    asked = search.question
    if place == asked.point:
        return 1.0
    if asked.alone or place in search.answers or not asked.low <= place <= asked.high:
        return 0.0
    width = asked.high - asked.low + 2
    share = (place - asked.low + 1) / width
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def best(searches: Iterable[Open[P]]) -> P:
    """Return the point from which the searches learn most together; raises ValueError for none."""
    total: dict[P, float] = {}
    for search in searches:
        for place, point in enumerate(search.points):
            if worth := gain(search, place):
                total[point] = total.get(point, 0.0) + worth
    return max(total, key=lambda point: total[point])


def served(search: Open[P], point: P) -> bool:
    """Say whether a search learns anything from a point."""
    return point in search.points and gain(search, search.points.index(point)) > 0
