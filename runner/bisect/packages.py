"""Which packages make the difference between two environments, in both directions. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from repromatrix.runner.bisect.search import Answer, smallest
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.environment_name import taken_apart, with_extras
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import DECIDING

_NAMED = 2
"""Packages that a mixture is named after; with more of them its digest is shorter."""

Taken = frozenset[str]
"""The packages that a mixture takes from the bad end; it has the others from the good one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageChange:
    """A package that the two ends have in different versions; empty where an end has it not."""

    package: str
    good: str
    bad: str

    def version(self, taken: Taken) -> str:
        """Return the version in a mixture."""
        return self.bad if self.package in taken else self.good


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentDifference:
    """Two environments and what differs between them."""

    good: Environment
    bad: Environment
    changes: tuple[PackageChange, ...]
    """What can be changed, the likeliest culprit first."""
    along: Mapping[str, str]
    """Packages that one end alone has because others need them there, with their versions."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of what can be changed, in order."""
        return tuple(change.package for change in self.changes)

    @property
    def everything(self) -> Taken:
        """The mixture that is the bad end itself."""
        return frozenset(self.packages)

    def swapped(self, taken: Taken) -> tuple[Environment, tuple[PackageChange, ...]]:
        """Return the nearer end, and what a mixture has otherwise than it."""
        bad = tuple(change for change in self.changes if change.package in taken)
        good = tuple(change for change in self.changes if change.package not in taken)
        return (self.good, bad) if len(bad) <= len(good) else (self.bad, good)


def difference(
    good: Environment, bad: Environment, likely: Iterable[str] = ()
) -> EnvironmentDifference:
    """Compare two environments; torch is the same everywhere and is no change.

    What only one end has is a change where that end's name asks for it, else it comes along with
    what needs it. `likely` packages are tried before all others.
    """
    wanted = {*requested(good.name), *requested(bad.name)}
    changes: list[PackageChange] = []
    along: dict[str, str] = {}
    for name in sorted({*good.pins, *bad.pins} - {"torch"}):
        here, there = good.version(name), bad.version(name)
        if here != there and ((here and there) or name in wanted):
            changes.append(PackageChange(package=name, good=here, bad=there))
        elif here != there:
            along[name] = here or there
    order = [*likely, *DECIDING]
    rank = {name: order.index(name) for name in order}
    changes.sort(key=lambda change: (rank.get(change.package, len(order)), change.package))
    return EnvironmentDifference(good=good, bad=bad, changes=tuple(changes), along=along)


def requested(name: str) -> tuple[str, ...]:
    """Return the packages that the name of an environment asks for."""
    parts = taken_apart(name)
    return (*(package for package, _ in parts.changed), *parts.extras)


def mixture_name(ends: EnvironmentDifference, taken: Taken) -> str:
    """Name a mixture after the nearer end and what it changes of it; many are shortened."""
    end, swapped = ends.swapped(taken)
    if not swapped:
        return end.name
    versions = {change.package: change.version(taken) for change in swapped}
    if len(versions) > _NAMED or not all(versions.values()):
        pins = " ".join(map("".join, versions.items()))
        return f"{end.name}@{hashlib.sha256(pins.encode()).hexdigest()[:8]}"
    parts = taken_apart(end.name)
    changed = {**dict(parts.changed), **versions}
    pairs = with_extras(parts.base, map("".join, changed.items()))
    return with_extras(pairs, parts.extras)


class BlameOutcome(StrEnum):
    """How the search ends."""

    FOUND = "found"
    UNDECIDED = "undecided"
    """Some combinations could not be judged, so it may be any of several packages."""
    GOOD_IS_BAD = "good-is-bad"
    BAD_IS_GOOD = "bad-is-good"
    SILENT = "silent"
    """An end could not be judged."""

    @property
    def code(self) -> ExitCode:
        """The exit code that says so."""
        match self:
            case BlameOutcome.FOUND:
                return ExitCode.AS_EXPECTED
            case BlameOutcome.BAD_IS_GOOD:
                return ExitCode.NOT_REPRODUCED
            case BlameOutcome.GOOD_IS_BAD:
                return ExitCode.FAILS_ON_BOTH_SIDES
            case BlameOutcome.UNDECIDED | BlameOutcome.SILENT:
                return ExitCode.UNDECIDED


@dataclass(frozen=True, kw_only=True, slots=True)
class MixtureTrial:
    """One mixture, the ends among them, and what it answers: yes where it is bad."""

    taken: Taken
    name: str
    answer: Answer = Answer.UNKNOWN
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

    def company(self, ends: EnvironmentDifference) -> tuple[str, ...]:
        """Name what came along with its changes, `+` before it, and what went, with a `-`."""
        if self.environment is None:
            return ()
        nearer, pins = ends.swapped(self.taken)[0].pins, self.environment.pins
        here = [name for name in sorted(ends.along) if (name in pins) != (name in nearer)]
        return tuple(f"+{name} {pins[name]}" if name in pins else f"-{name}" for name in here)


@dataclass(frozen=True, kw_only=True, slots=True)
class Smallest:
    """A 1-minimal set of packages, and the mixture that shows it."""

    packages: tuple[str, ...]
    shown: MixtureTrial
    hidden: tuple[MixtureTrial, ...]
    """Mixtures with a part of them that have no answer: behind them may be a smaller set."""
    suspects: tuple[str, ...]
    """Those that it may be: the others change nothing alone, they only have to come along."""
    is_decided: bool
    """Whether no mixture without an answer leaves open which of them it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blame:
    """What makes the difference between two environments."""

    ends: EnvironmentDifference
    good: MixtureTrial
    bad: MixtureTrial
    trials: tuple[MixtureTrial, ...]
    """Every mixture that was asked about, in that order, the ends first."""
    breaks: Smallest | None = None
    """The least that the bad end gives to make the good one bad."""
    fixes: Smallest | None = None
    """The least that the good end gives to make the bad one good."""

    @property
    def ending(self) -> BlameOutcome:
        """How the search ended."""
        if self.good.answer is Answer.YES:
            return BlameOutcome.GOOD_IS_BAD
        if self.bad.answer is Answer.NO:
            return BlameOutcome.BAD_IS_GOOD
        if self.breaks is None or self.fixes is None:
            return BlameOutcome.SILENT
        decided = self.breaks.is_decided and self.fixes.is_decided
        return BlameOutcome.FOUND if decided else BlameOutcome.UNDECIDED

    @property
    def culprits(self) -> tuple[str, ...]:
        """The packages that either direction names, those that break first."""
        return tuple(dict.fromkeys(name for least in self.least for name in least.suspects))

    @property
    def least(self) -> tuple[Smallest, ...]:
        """The smallest sets that were found, the one that breaks first."""
        return tuple(filter(None, (self.breaks, self.fixes)))


def search(ends: EnvironmentDifference, ask: Callable[[Taken], MixtureTrial]) -> Blame:
    """Find the smallest sets, asking about each mixture once; the ends come first."""
    asked: dict[Taken, MixtureTrial] = {}

    def trial(taken: Taken) -> MixtureTrial:
        if taken not in asked:
            asked[taken] = ask(taken)
        return asked[taken]

    good, bad = trial(frozenset()), trial(ends.everything)
    breaks = fixes = None
    if (good.answer, bad.answer) == (Answer.NO, Answer.YES):
        breaks = _smallest(ends.packages, trial, Answer.YES)
        # Whatever breaks the one is the likeliest to fix the other.
        order = tuple(dict.fromkeys([*breaks.packages, *ends.packages]))
        fixes = _smallest(order, lambda given: trial(ends.everything - given), Answer.NO)
    trials = tuple(asked.values())
    return Blame(ends=ends, good=good, bad=bad, trials=trials, breaks=breaks, fixes=fixes)


def _smallest(
    packages: tuple[str, ...], trial: Callable[[Taken], MixtureTrial], wanted: Answer
) -> Smallest:
    """Return the smallest set whose trial answers as wanted; all of them together do."""

    def says(given: Taken) -> Answer:
        match trial(given).answer:
            case Answer.UNKNOWN:
                return Answer.UNKNOWN
            case answer:
                return Answer.YES if answer is wanted else Answer.NO

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


def _held_together(
    packages: tuple[str, ...], trial: Callable[[Taken], MixtureTrial]
) -> tuple[str, ...]:
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
