"""What differs between two sides, cell by cell and never by sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from runner.judging.expectations import described
from runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.model.case import Case
    from runner.model.cell import Cell
    from runner.model.observation import Observation

_TOLD = 0.1
"""By how much of itself a measured number moves before it is named."""


class Change(StrEnum):
    """What became of a cell from one side to the other."""

    BROKE = "broke"
    FIXED = "fixed"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "unknown"
    SAME = "same"

    @property
    def differs(self) -> bool:
        """Whether the two sides are known to differ."""
        match self:
            case Change.BROKE | Change.FIXED | Change.CHANGED | Change.NEW | Change.GONE:
                return True
            case Change.UNKNOWN | Change.SAME:
                return False


class Word(StrEnum):
    """What one side says of a cell."""

    GOOD = "good"
    BAD = "bad"
    SILENT = "silent"
    """It declines, or never computed in its precision."""
    UNKNOWN = "unknown"
    """The machine decided, repeats disagree, or it was not run."""
    ABSENT = "absent"
    """It is not applicable."""


class Key(NamedTuple):
    """A cell without its environment: what two sides have in common."""

    case: str
    workaround: str
    precision: Precision
    device: Device


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a comparison: its name, and what was observed there."""

    name: str
    seen: Mapping[Key, Observation]


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A measured number that moved though both sides pass."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One cell on both sides, and what became of it."""

    key: Key
    change: Change
    before: Observation | None
    after: Observation | None
    moved: tuple[Moved, ...] = ()


def key_of(cell: Cell) -> Key:
    """Return what a cell has in common with the same cell in another environment."""
    return Key(cell.case, cell.workaround, cell.precision, cell.device)


def word(  # noqa: PLR0911 - a table: one return per kind of outcome
    seen: Observation | None,
) -> Word:
    """Return what an observation says for its side."""
    if seen is None:
        return Word.ABSENT
    if seen.unstable:
        return Word.UNKNOWN
    unproven = seen.exercised is Exercised.NO
    match seen.outcome:
        case Outcome.PASSES:
            return Word.SILENT if unproven else Word.GOOD
        case Outcome.FAILS | Outcome.CRASHES | Outcome.TIMES_OUT:
            return Word.SILENT if unproven else Word.BAD
        case Outcome.DECLINES:
            return Word.SILENT
        case Outcome.OUT_OF_MEMORY | Outcome.UNBUILDABLE | Outcome.NOT_RUN:
            return Word.UNKNOWN
        case Outcome.NOT_APPLICABLE:
            return Word.ABSENT


def is_described(case: Case | None, seen: Observation) -> bool:
    """Say whether a failure is one that the case describes, wherever it expects it."""
    return case is not None and any(described(entry, seen) for entry in case.block.fails)


def change(  # noqa: PLR0911 - a table too
    case: Case | None, before: Observation | None, after: Observation | None
) -> Change:
    """Say what became of a cell; of a case that nobody here has, only signatures are known."""
    words = (word(before), word(after))
    if Word.UNKNOWN in words:
        return Change.UNKNOWN
    match words:
        case (Word.ABSENT, Word.ABSENT):
            return Change.SAME
        case (Word.ABSENT, _):
            return Change.NEW
        case (_, Word.ABSENT):
            return Change.GONE
        case (Word.GOOD, Word.BAD):
            return Change.BROKE
        case (Word.BAD, Word.GOOD):
            return Change.FIXED
        case _:
            assert before is not None  # noqa: S101 - what is None is absent
            assert after is not None  # noqa: S101
            return _alike(case, before, after)


def _alike(case: Case | None, before: Observation, after: Observation) -> Change:
    same = before.kind == after.kind and is_described(case, before) == is_described(case, after)
    return Change.SAME if same and word(before) is word(after) else Change.CHANGED


def compare(before: Side, after: Side, cases: Mapping[str, Case]) -> tuple[Pair, ...]:
    """Compare the cells that are applicable on a side or on both, in the order given."""
    return tuple(
        _pair(key, cases[key.case], one, other)
        for key in dict.fromkeys([*before.seen, *after.seen])
        for one, other in [(before.seen.get(key), after.seen.get(key))]
        if {word(one), word(other)} != {Word.ABSENT}
    )


def _pair(key: Key, case: Case, before: Observation | None, after: Observation | None) -> Pair:
    return Pair(
        key=key,
        change=change(case, before, after),
        before=before,
        after=after,
        moved=moved(before, after),
    )


def moved(before: Observation | None, after: Observation | None) -> tuple[Moved, ...]:
    """Return the measured numbers that moved though both sides pass."""
    return tuple(_moved(before, after))


def _moved(before: Observation | None, after: Observation | None) -> Iterator[Moved]:
    if before is None or after is None or {word(before), word(after)} != {Word.GOOD}:
        return
    for name in sorted(before.measured.keys() & after.measured.keys()):
        one, other = before.measured[name], after.measured[name]
        if _is_far(one, other):
            yield Moved(name=name, before=one, after=other)


def _is_far(one: float, other: float) -> bool:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return False
    if not (math.isfinite(one) and math.isfinite(other)):
        return True
    return abs(other - one) > _TOLD * max(abs(one), abs(other))
