"""The smallest set of changes that suffices: delta debugging (ddmin) over a set.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002): a set is
1-minimal when it says yes and no set with one element less does. Unknown counts as no, and is
listed: behind it there may be a smaller set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from repromatrix.runner.bisect.search import Answer

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Minimal(Generic[T]):
    """A 1-minimal set, in the order of the elements given."""

    elements: tuple[T, ...]
    unknown: tuple[frozenset[T], ...]
    """Sets that were tried and have no answer."""


def smallest(elements: Sequence[T], ask: Callable[[frozenset[T]], Answer]) -> Minimal[T] | None:
    """Return a 1-minimal set of elements that says yes; None where all of them together do not.

    Elements are tried alone in their order before they are halved, the likeliest first, as long as
    that costs no more than halving would. Each set is asked once.
    """
    answers: dict[frozenset[T], Answer] = {}

    def suffices(part: Sequence[T]) -> bool:
        tried = frozenset(part)
        if tried and tried not in answers:
            answers[tried] = ask(tried)
        return bool(tried) and answers[tried] is Answer.YES

    if not suffices(elements):
        return None
    tries = max(1, len(elements).bit_length() - 1)
    alone = next(([element] for element in elements[:tries] if suffices([element])), None)
    return Minimal(
        elements=tuple(alone or _one_minimal(list(elements), suffices)),
        unknown=tuple(tried for tried in answers if answers[tried] is Answer.UNKNOWN),
    )


def _one_minimal(kept: list[T], suffices: Callable[[Sequence[T]], bool]) -> list[T]:
    """ddmin: try parts, then what is left without each part, then finer parts."""
    parts = 2
    while len(kept) > 1:
        pieces = list(_split(kept, parts))
        piece = next(filter(suffices, pieces), None)
        if piece is not None:
            kept, parts = piece, 2
            continue
        rests = ([element for element in kept if element not in piece] for piece in pieces)
        rest = next(filter(suffices, rests), None)
        if rest is not None:
            kept, parts = rest, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(len(kept), 2 * parts)
    return kept


def _split(elements: Sequence[T], parts: int) -> Iterator[list[T]]:
    size, more = divmod(len(elements), parts)
    start = 0
    for number in range(parts):
        end = start + size + (number < more)
        if end > start:
            yield list(elements[start:end])
        start = end
