"""The smallest set of changes that suffices: delta debugging (ddmin) over a set.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002): a set is
1-minimal when it says yes and no set with one element less does. Unknown counts as no, and is
listed: behind it there may be a smaller set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from repromatrix.runner.bisect.search import Answer, AnswerCache

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Minimal(Generic[T]):
    """A 1-minimal set, in the order of the elements given."""

    elements: tuple[T, ...]
    unknown: tuple[frozenset[T], ...]
    """Sets that were tried and have no answer."""


def smallest(
    elements: Sequence[T],
    ask: Callable[[frozenset[T]], Answer],
    known: Mapping[frozenset[T], Answer] | None = None,
) -> Minimal[T] | None:
    """Return a 1-minimal set of elements that says yes; None where all of them together do not.

    Elements are tried alone in their order before they are halved, the likeliest first, as long as
    that costs no more than halving would. `known` sets are never asked.
    """
    oracle: AnswerCache[frozenset[T]] = AnswerCache(ask, known)
    if oracle(frozenset(elements)) is not Answer.YES:
        return None
    kept = _alone(elements, oracle) or _one_minimal(list(elements), oracle)
    return Minimal(
        elements=tuple(kept),
        unknown=tuple(tried for tried in oracle.asked if oracle(tried) is Answer.UNKNOWN),
    )


def _alone(elements: Sequence[T], oracle: AnswerCache[frozenset[T]]) -> list[T]:
    """Try the likeliest elements alone, about as many as halving the whole set would ask."""
    tries = max(1, len(elements).bit_length() - 1)
    return next(([one] for one in elements[:tries] if _suffices([one], oracle)), [])


def _suffices(elements: Sequence[T], oracle: AnswerCache[frozenset[T]]) -> bool:
    return bool(elements) and oracle(frozenset(elements)) is Answer.YES


def _one_minimal(kept: list[T], oracle: AnswerCache[frozenset[T]]) -> list[T]:
    """ddmin: try parts, then what is left without each part, then finer parts."""
    parts = 2
    while len(kept) > 1:
        pieces = list(_split(kept, parts))
        smaller = next((piece for piece in pieces if _suffices(piece, oracle)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        rests = [[one for one in kept if one not in piece] for piece in pieces]
        rest = next((rest for rest in rests if _suffices(rest, oracle)), None)
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
