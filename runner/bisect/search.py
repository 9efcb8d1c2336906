"""Search with few questions: where an answer changes, and the smallest set that suffices. Pure.

Answers are yes, no or unknown; several searches along ordered points can share their questions.

The smallest set is found by delta debugging (ddmin): Zeller and Hildebrandt, "Simplifying and
Isolating Failure-Inducing Input" (2002). A set is 1-minimal when it says yes and no set with one
element less does. Unknown counts as no, and is listed: behind it there may be a smaller set.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from repromatrix.runner.judging.ranges import segments

P = TypeVar("P")


class Answer(StrEnum):
    """Whether a point is bad."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    @property
    def word(self) -> str:
        """How a point with this answer is called: `bad`, `good` or `unknown`."""
        return {Answer.YES: "bad", Answer.NO: "good"}.get(self, "unknown")


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


class Open(NamedTuple, Generic[P]):
    """A search that is not at its end: the names of its points, their answers, its question."""

    points: Sequence[P]
    answers: Mapping[int, Answer]
    question: SearchQuestion


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


class Edge(StrEnum):
    """Which change is looked for."""

    RISE = "rise"
    """From no to yes."""
    FALL = "fall"
    """From yes to no."""

    @property
    def word(self) -> str:
        """What is called so: a `break` or a `fix`."""
        return "break" if self is Edge.RISE else "fix"

    @property
    def other(self) -> Edge:
        """The change in the other direction."""
        return Edge.FALL if self is Edge.RISE else Edge.RISE

    @property
    def sides(self) -> tuple[Answer, Answer]:
        """What is answered before it, and from it on."""
        return (Answer.NO, Answer.YES) if self is Edge.RISE else (Answer.YES, Answer.NO)


class SearchOutcome(StrEnum):
    """How a search ends."""

    FOUND = "found"
    NEVER = "never"
    """No point that was asked says yes: there is nothing to find."""
    ALWAYS = "always"
    """The first point that answers says yes (no rise before it), or the last does (no fall)."""
    UNDECIDED = "undecided"
    """No point that was asked answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """Two points with different answers; those between them were asked and have none."""

    before: int
    at: int
    edge: Edge

    @property
    def between(self) -> range:
        """The points that were stepped over: the change is at one of them or at `at`."""
        return range(self.before + 1, self.at)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuestion:
    """The next point to ask."""

    point: int
    low: int
    """The open part: only points from here …"""
    high: int
    """… to here can tell more."""
    at_most: int
    """Questions that are left where every point answers, this one counted; probes come on top."""
    alone: bool = False
    """Whether no other point would help, as long as no two points are known to differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a search found."""

    ending: SearchOutcome
    found: Transition | None = None
    again: tuple[Transition, ...] = ()
    """Further changes of the same kind that the answers show: the history changes more than once.

    Between two points that agree there may be more of them; only asking every point tells.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Sought:
    """What is looked for.

    `hints` are points to be asked early, as where a case says that it changes; they save
    questions where they are right and cost one each where they are wrong. `probes` are asked in
    their order where both ends say no, until one says yes: its edge is searched. `every` asks all
    points.
    """

    edge: Edge = Edge.RISE
    hints: tuple[int, ...] = ()
    probes: tuple[int, ...] = ()
    every: bool = False


def look(count: int, answers: Mapping[int, Answer], sought: Sought) -> SearchQuestion | Result:
    """Return the next question about `count` points, or what the answers say."""
    points = range(count)
    end = _end(points, answers)
    if isinstance(end, SearchQuestion):
        return end
    if sought.every and (left := _untried(points, answers)):
        return SearchQuestion(point=_middle(left), low=left[0], high=left[-1], at_most=len(left))
    if end is None:
        return Result(ending=SearchOutcome.UNDECIDED)
    return _inside(points, end, answers, sought)


def _inside(
    points: range, end: tuple[int, int], answers: Mapping[int, Answer], sought: Sought
) -> SearchQuestion | Result:
    """Look for the change where both ends answered; then bring the ends nearer, then probe."""
    low, high = end
    below, above = range(points.start, low), range(high + 1, points.stop)
    if sought.edge is Edge.RISE and answers[low] is Answer.YES:
        always = Result(ending=SearchOutcome.ALWAYS, again=_open(answers, sought.edge))
        return _nearer(below, answers) or always
    found = _between(low, high, answers, sought)
    if isinstance(found, SearchQuestion) or found.ending is SearchOutcome.FOUND:
        return found
    if nearer := _nearer(above, answers) or _nearer(below, answers):
        return nearer
    if found.ending is SearchOutcome.NEVER:
        return _probe(range(low + 1, high), answers, sought) or found
    return found


def _probe(within: range, answers: Mapping[int, Answer], sought: Sought) -> SearchQuestion | None:
    """Return the question about the next probe between two ends that say no."""
    left = [probe for probe in sought.probes if probe in within and probe not in answers]
    if not left:
        return None
    at_most = len(left) + halvings(len(within) + 1)
    return SearchQuestion(
        point=left[0], low=within[0], high=within[-1], at_most=at_most, alone=True
    )


def _nearer(beyond: range, answers: Mapping[int, Answer]) -> SearchQuestion | None:
    """Return the question that brings an end nearer to the points beyond it that do not answer.

    The end was leapt to; what lies between it and the last silent point may say otherwise.
    """
    silent = [point for point in beyond if point in answers]
    left = _untried(beyond, answers)
    if beyond.start == 0:
        left = [point for point in left if point > max(silent, default=-1)]
    else:
        left = [point for point in left if point < min(silent, default=beyond.stop)]
    if not left:
        return None
    at_most = halvings(len(left) + 1)
    return SearchQuestion(
        point=_middle(left), low=left[0], high=left[-1], at_most=at_most, alone=True
    )


def _between(
    low: int, high: int, answers: Mapping[int, Answer], sought: Sought
) -> SearchQuestion | Result:
    """Look between two ends that answered: halve until no point between them is left to ask."""
    first = next(iter(_open(answers, sought.edge)), None)
    within = range(low + 1, high) if first is None else first.between
    hint = next((one for one in sought.hints if one in within and one not in answers), None)
    if hint is not None:
        at_most = 1 + halvings(max(hint - within.start + 1, within.stop - hint))
        return SearchQuestion(
            point=hint, low=within[0], high=within[-1], at_most=at_most, alone=first is None
        )
    if first is None:
        still = sought.edge is Edge.FALL and answers[high] is Answer.YES
        return Result(ending=SearchOutcome.ALWAYS if still else SearchOutcome.NEVER)
    left = _untried(first.between, answers)
    if left:
        point = _near_middle(first, left, answers)
        at_most = max(1, halvings(min(first.at - first.before, len(left) + 1)))
        return SearchQuestion(point=point, low=left[0], high=left[-1], at_most=at_most)
    again = tuple(change for change in _open(answers, sought.edge) if change.at > first.at)
    return Result(ending=SearchOutcome.FOUND, found=first, again=again)


def changes(answers: Mapping[int, Answer]) -> tuple[Transition, ...]:
    """Return every change between neighbours among the points that answered."""
    judged = {point: said for point, said in answers.items() if said is not Answer.UNKNOWN}
    found = segments(sorted(judged), judged.get)
    return tuple(
        Transition(
            before=old.points[-1],
            at=new.points[0],
            edge=Edge.RISE if new.answer is Answer.YES else Edge.FALL,
        )
        for old, new in itertools.pairwise(found)
    )


def _open(answers: Mapping[int, Answer], edge: Edge) -> tuple[Transition, ...]:
    return tuple(change for change in changes(answers) if change.edge is edge)


def _end(points: range, answers: Mapping[int, Answer]) -> SearchQuestion | tuple[int, int] | None:
    """Return both ends that answer, the question about one of them, or None where none does."""
    high = _unasked_end(points[::-1], answers)
    point = _unasked_end(points, answers) if high is None else high
    if point is not None:
        ends = 1 if high is None or len(points) == 1 else 2
        at_most = ends + halvings(len(points) - 1)
        low, last = points[0], points[-1]
        return SearchQuestion(point=point, low=low, high=last, at_most=at_most, alone=True)
    said = [point for point in answers if answers[point] is not Answer.UNKNOWN]
    return (min(said), max(said)) if said else None


def _unasked_end(points: range, answers: Mapping[int, Answer]) -> int | None:
    """Return what to ask for an end that answers; None where there is one, or hardly can be.

    Steps double, so that a script of which no release says anything is not run on all of them.
    """
    place, step = 0, 1
    while place < len(points):
        if points[place] not in answers:
            return points[place]
        if answers[points[place]] is not Answer.UNKNOWN:
            return None
        place, step = place + step, 2 * step
    return None


def halvings(width: int) -> int:
    """Return ceil(log2(width)): how often a distance is halved until its ends are neighbours."""
    return (width - 1).bit_length() if width > 1 else 0


def _untried(points: range, answers: Mapping[int, Answer]) -> list[int]:
    return [point for point in points if point not in answers]


def _middle(points: Sequence[int]) -> int:
    return points[len(points) // 2]


_NEIGHBOURS = 2
"""Silent points after which their neighbours are taken to be silent, too."""


def _near_middle(change: Transition, left: Sequence[int], answers: Mapping[int, Answer]) -> int:
    """Return the point nearest the middle; behind several silent ones, that of the longest rest.

    So one point without an answer costs one question, and a long stretch of them only a few.
    """
    silent = sum(1 for point in change.between if answers.get(point) is Answer.UNKNOWN)
    if silent < _NEIGHBOURS:
        middle = (change.before + change.at) // 2
        return min(left, key=lambda point: abs(point - middle))
    # Of neighbours the distance to their number is the same.
    stretches = itertools.groupby(enumerate(left), lambda pair: pair[1] - pair[0])
    return _middle(max(([point for _, point in each] for _, each in stretches), key=len))


@dataclass(frozen=True, kw_only=True, slots=True)
class Minimal(Generic[P]):
    """A 1-minimal set, in the order of the elements given."""

    elements: tuple[P, ...]
    unknown: tuple[frozenset[P], ...]
    """Sets that were tried and have no answer."""


def smallest(elements: Sequence[P], ask: Callable[[frozenset[P]], Answer]) -> Minimal[P] | None:
    """Return a 1-minimal set of elements that says yes; None where all of them together do not.

    Elements are tried alone in their order before they are halved, the likeliest first, as long as
    that costs no more than halving would. Each set is asked once.
    """
    answers: dict[frozenset[P], Answer] = {}

    def suffices(part: Sequence[P]) -> bool:
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


def _one_minimal(kept: list[P], suffices: Callable[[Sequence[P]], bool]) -> list[P]:
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


def _split(elements: Sequence[P], parts: int) -> Iterator[list[P]]:
    size, more = divmod(len(elements), parts)
    start = 0
    for number in range(parts):
        end = start + size + (number < more)
        if end > start:
            yield list(elements[start:end])
        start = end
