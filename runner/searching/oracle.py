"""What an oracle says of a point, and the memory of what it said."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = TypeVar("P")


class Answer(StrEnum):
    """What an oracle says of a point."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Memory(Generic[P]):
    """An oracle that is asked once per point; `asked` lists what it was asked, in order."""

    def __init__(self, ask: Callable[[P], Answer], known: Mapping[P, Answer] | None = None) -> None:
        """Begin with what is known already; those points are never asked."""
        self._ask = ask
        self.answers: dict[P, Answer] = dict(known or {})
        self.asked: list[P] = []

    def __call__(self, point: P) -> Answer:
        """Return the answer, asking for it only if it is not known."""
        if point not in self.answers:
            self.asked.append(point)
            self.answers[point] = self._ask(point)
        return self.answers[point]


def agreed(answers: Mapping[P, Answer], point: P, said: Answer) -> Answer:
    """Return what holds of a point that was asked again: unknown where the two contradict.

    An unknown contradicts nothing: the other answer stands.
    """
    before = answers.get(point, Answer.UNKNOWN)
    match before, said:
        case (Answer.UNKNOWN, _):
            return said
        case (_, Answer.UNKNOWN):
            return before
        case _:
            return said if before is said else Answer.UNKNOWN
