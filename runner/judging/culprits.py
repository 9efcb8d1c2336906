"""Which packages make the difference between two environments, searched in both directions. Pure.

Both directions ask about the same mixtures: what the bad end gives to break the good one, and what
it keeps when the good one heals it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from runner.searching.minimal import smallest
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.model.cell import Environment
    from runner.model.mixture import Difference, Taken
    from runner.model.observation import Observation


class Ending(StrEnum):
    """How the search ends."""

    FOUND = "found"
    UNDECIDED = "undecided"
    """Combinations that have no answer hide which of several packages it is."""
    GOOD_IS_BAD = "good-is-bad"
    BAD_IS_GOOD = "bad-is-good"
    SILENT = "silent"
    """An end answers nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One mixture, the ends among them, and what it answers: yes where it is bad."""

    taken: Taken
    name: str
    answer: Answer
    seen: Observation | None = None
    reason: str = ""
    """Why nothing was seen."""
    environment: Environment | None = None
    """What it holds; None where no environment holds it."""
    known: bool = False
    """Whether stored evidence answered."""

    @property
    def was_run(self) -> bool:
        """Whether it was run for this search."""
        return self.seen is not None and not self.known

    def company(self, ends: Difference) -> tuple[str, ...]:
        """Name what came along with its changes, `+` before it, and what went, with a `-`."""
        return ends.company(self.environment.pins, self.taken) if self.environment else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Smallest:
    """A 1-minimal set of packages, and the mixture that shows it."""

    packages: tuple[str, ...]
    shown: Trial
    hidden: tuple[Trial, ...]
    """Mixtures with a part of them that have no answer: behind them may be a smaller set."""
    suspects: tuple[str, ...]
    """Those that it may be: the others change nothing alone and only have to come with them."""
    is_decided: bool
    """Whether no part without an answer hides which of them it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blame:
    """What makes the difference between two environments."""

    ends: Difference
    good: Trial
    bad: Trial
    trials: tuple[Trial, ...]
    """Every mixture that was asked about, in that order, the ends first."""
    breaks: Smallest | None = None
    """The least that the bad end gives to make the good one bad."""
    heals: Smallest | None = None
    """The least that the good end gives to make the bad one good."""

    @property
    def ending(self) -> Ending:
        """How the search ended."""
        if self.good.answer is Answer.YES:
            return Ending.GOOD_IS_BAD
        if self.bad.answer is Answer.NO:
            return Ending.BAD_IS_GOOD
        if self.breaks is None or self.heals is None:
            return Ending.SILENT
        decided = self.breaks.is_decided and self.heals.is_decided
        return Ending.FOUND if decided else Ending.UNDECIDED

    @property
    def culprits(self) -> tuple[str, ...]:
        """The packages that either direction names, those that break first."""
        found = (one for one in (self.breaks, self.heals) if one)
        return tuple(dict.fromkeys(name for one in found for name in one.suspects))


def search(ends: Difference, ask: Callable[[Taken], Trial]) -> Blame:
    """Find the smallest sets, asking about each mixture once; the ends come first."""
    asked: dict[Taken, Trial] = {}

    def trial(taken: Taken) -> Trial:
        if taken not in asked:
            asked[taken] = ask(taken)
        return asked[taken]

    good, bad = trial(frozenset()), trial(ends.everything)
    breaks = heals = None
    if (good.answer, bad.answer) == (Answer.NO, Answer.YES):
        breaks = _smallest(ends.packages, trial, Answer.YES)
        # Whatever breaks the one is the likeliest to heal the other.
        order = tuple(dict.fromkeys([*breaks.packages, *ends.packages]))
        heals = _smallest(order, lambda given: trial(ends.everything - given), Answer.NO)
    trials = tuple(asked.values())
    return Blame(ends=ends, good=good, bad=bad, trials=trials, breaks=breaks, heals=heals)


def _smallest(
    packages: tuple[str, ...], trial: Callable[[Taken], Trial], wanted: Answer
) -> Smallest:
    """Return the smallest set whose trial answers as wanted; all of them together do."""

    def says(given: Taken) -> Answer:
        match trial(given).answer:
            case Answer.UNKNOWN:
                return Answer.UNKNOWN
            case said:
                return Answer.YES if said is wanted else Answer.NO

    likely = _held_together(packages, trial)
    found = smallest(likely, says) if likely else None
    found = found or smallest(packages, says)
    assert found is not None  # noqa: S101 - both ends were asked before
    whole = frozenset(found.elements)
    hidden = [part for part in found.unknown if part < whole]
    # Each of several was asked alone before nothing smaller was found.
    idle = {name for name in whole if hidden and says(frozenset({name})) is Answer.NO}
    suspects = tuple(name for name in found.elements if name not in idle) or found.elements
    return Smallest(
        packages=found.elements,
        shown=trial(whole),
        hidden=tuple(map(trial, hidden)),
        suspects=suspects,
        is_decided=not hidden
        or (len(suspects) == 1 and all(suspects[0] in part for part in hidden)),
    )


def _held_together(packages: tuple[str, ...], trial: Callable[[Taken], Trial]) -> tuple[str, ...]:
    """Return what has to change with the likeliest package, where it cannot change alone.

    The reason names what stands against it; it is followed until some environment holds them.
    Nothing is returned where the package can change alone, or never.
    """
    given = frozenset(packages[:1])
    while given < frozenset(packages) and (asked := trial(given)).environment is None:
        named = {package for package in packages if package in asked.reason}
        if named <= given:
            return ()
        given |= named
    return tuple(name for name in packages if name in given) if len(given) > 1 else ()
