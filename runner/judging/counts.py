"""The bugs of cases, and what became of each: the one count of answers and pages. Pure.

A bug is what the entries of one case with one title describe; a variant is a case of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from repromatrix.runner.judging.ranges import bug_of, own_bug
from repromatrix.runner.model.case import PLAIN, Case, CaseKind, Trigger
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision, Reading
from repromatrix.runner.text import join, plural


class Scope(StrEnum):
    """In which precisions a bug fails, as it was measured."""

    HALF = "half precision only"
    MIXED = "mixed precision only"
    """In half precision, under autocast, which alone leads to it."""
    EVERY = "every precision"
    SOME = "some precisions"
    """In fp32, yet not in each."""
    UNKNOWN = "unknown precisions"
    """Nothing tells what fp32 does where it fails, or it never failed."""


class BugState(StrEnum):
    """What became of a bug; what matters most to a reader comes first."""

    OPEN = "open"
    UNKNOWN = "unknown"
    UNMEASURED = "not measured"
    FIXED = "fixed"
    PASSING = "passing"


DEVICES = tuple(Device)
_STATES = {
    Reading.BAD: BugState.OPEN,
    Reading.UNKNOWN: BugState.UNKNOWN,
    Reading.GOOD: BugState.PASSING,
}
Series = tuple[Device, Precision]
Readings = Mapping[Series, Mapping[str, Reading]]
"""What was seen of a plain case by device and precision, then by environment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bug:
    """One bug of a case, with what was seen of it in the precisions that fail with it anywhere."""

    case: str
    title: str
    package: str
    """The one at fault."""
    is_silent: bool
    is_intended: bool
    scope: Scope
    readings: Readings
    """Where the case fails with another bug, this one is unknown."""

    def failing(self, names: Collection[str]) -> tuple[Precision, ...]:
        """Return the precisions in which it fails in some environments, on any device."""
        found = {
            precision
            for (_, precision), seen in self.readings.items()
            if any(seen.get(name) is Reading.BAD for name in names)
        }
        return tuple(precision for precision in Precision if precision in found)

    def state(
        self, names: Collection[str], devices: Collection[Device] = DEVICES
    ) -> BugState | None:
        """Return the worst that some environments say of it; None where it cannot be met."""
        series = [seen for (device, _), seen in self.readings.items() if device in devices]
        found = {seen[name] for seen in series for name in names if name in seen}
        worst = (state for reading, state in _STATES.items() if reading in found)
        return next(worst, None if found - {Reading.UNASKED} else BugState.UNMEASURED)

    def newest(self, names: Collection[str]) -> BugState:
        """Return its state by the newest environments: what fails in older ones alone is fixed."""
        state = self.state(names) or BugState.PASSING
        ever = any(Reading.BAD in seen.values() for seen in self.readings.values())
        return BugState.FIXED if ever and state is BugState.PASSING else state


class BugMove(StrEnum):
    """How a bug differs between two releases where it fails in one of them alone."""

    BROKE = "broke"
    FIXED = "fixed"
    CAME = "came"
    """It could not be met before, or nobody knows what it did."""
    WENT = "went"


def moves(
    bugs: Iterable[Bug], before: Collection[str], after: Collection[str]
) -> dict[BugMove, tuple[Bug, ...]]:
    """Return which bugs account for the difference between two counts; intended ones do not."""
    found: dict[BugMove, list[Bug]] = {move: [] for move in BugMove}
    for bug in bugs:
        old, new = bug.state(before), bug.state(after)
        was, is_open = old is BugState.OPEN, new is BugState.OPEN
        if was != is_open and not bug.is_intended:
            passing, other = (BugMove.FIXED, BugMove.WENT) if was else (BugMove.BROKE, BugMove.CAME)
            found[passing if BugState.PASSING in {old, new} else other].append(bug)
    return {move: tuple(some) for move, some in found.items()}


def bugs_of(
    case: Case, environments: Mapping[str, Environment], rows: Iterable[Observation]
) -> tuple[Bug, ...]:
    """Return the bugs with which a case fails anywhere without a workaround.

    Of a case that never fails it is the one of its title.
    """
    readings: dict[Series, dict[str, Reading]] = {}
    failing: dict[tuple[str, str], dict[Series, set[str]]] = {}
    for row in rows:
        _, workaround, name, precision, device = row.cell
        if workaround == PLAIN:
            readings.setdefault((device, precision), {})[name] = row.reading
            if row.reading.fails:
                bug = bug_of(case, row, environments[name])
                failing.setdefault(bug, {}).setdefault((device, precision), set()).add(name)
    if not failing:
        return (_bug(case, own_bug(case), readings, readings),)
    found = []
    for bug, where in failing.items():
        precisions = {precision for _, precision in where}
        own = {
            series: {
                name: Reading.UNKNOWN
                if reading is Reading.BAD and name not in where.get(series, ())
                else reading
                for name, reading in seen.items()
            }
            for series, seen in readings.items()
            if series[1] in precisions
        }
        found.append(_bug(case, bug, own, readings))
    return tuple(found)


def _bug(case: Case, identity: tuple[str, str], own: Readings, every: Readings) -> Bug:
    title, package = identity
    entries = [entry for entry in case.block.fails if case.title_of(entry) == title]
    block = case.block
    stated = (entry.symptom or block.symptom for entry in entries)
    symptoms = {*chain.from_iterable(stated)} or {*block.symptom}
    triggers = {one for entry in entries for one in entry.trigger or block.trigger}
    return Bug(
        case=case.name,
        title=title,
        package=package,
        is_silent=bool(symptoms) and all(symptom.is_silent for symptom in symptoms),
        is_intended=block.kind is not CaseKind.BUG,
        scope=scope_of(own, every, triggers),
        readings=own,
    )


def scope_of(own: Readings, every: Readings, triggers: Collection[Trigger]) -> Scope:
    """Return in which precisions a bug fails; `own` is what was seen of it, `every` of the case.

    That it spares fp32 is only known where fp32 was seen not to fail beside one of its failures.
    """
    failing = [
        (series, name)
        for series, seen in own.items()
        for name, reading in seen.items()
        if reading is Reading.BAD
    ]
    precisions = {precision for (_, precision), _ in failing}
    if Precision.FP32 in precisions:
        return Scope.EVERY if precisions == {*Precision} else Scope.SOME
    beside = {every.get((device, Precision.FP32), {}).get(name) for (device, _), name in failing}
    if not beside & {Reading.GOOD, Reading.SILENT}:
        return Scope.UNKNOWN
    is_mixed = Trigger.AUTOCAST in triggers and not {Trigger.LOAD, Trigger.CAST} & {*triggers}
    return Scope.MIXED if is_mixed else Scope.HALF


@dataclass(frozen=True, kw_only=True, slots=True)
class BugCount:
    """Some bugs by what became of them; what is intended stands apart."""

    of: Mapping[BugState, tuple[Bug, ...]]
    intended: tuple[Bug, ...]
    """Those that are in effect."""

    @property
    def open(self) -> tuple[Bug, ...]:
        """The bugs that fail."""
        return self.of[BugState.OPEN]

    @property
    def silent(self) -> tuple[Bug, ...]:
        """Those of them that raise no error."""
        return tuple(bug for bug in self.open if bug.is_silent)

    @property
    def known(self) -> tuple[Bug, ...]:
        """All of them."""
        return tuple(bug for bugs in self.of.values() for bug in bugs)

    @property
    def judged(self) -> int:
        """Of how many bugs it is known whether they fail."""
        return len(self.open) + len(self.of[BugState.PASSING])

    @property
    def says(self) -> str:
        """How many fail, and what they are like, the same wherever it stands."""
        quiet = f", {len(self.silent)} of them silent ({by_scope(self.open)})"
        return known_bugs(len(self.open), len(self.intended), quiet if self.open else "")

    @property
    def tally(self) -> str:
        """How many bugs there are, and what became of them: `3 known bugs: 1 open, 2 fixed`."""
        parts = {state: len(bugs) for state, bugs in self.of.items() if bugs}
        told = ": " + ", ".join(f"{number} {state}" for state, number in parts.items())
        if len(parts) == 1:
            [(state, number)] = parts.items()
            told = f", {'all ' if number > 1 else ''}{state}"
        return known_bugs(len(self.known), len(self.intended), told if parts else "")


def known_bugs(bugs: int, intended: int, what: str = "") -> str:
    """Return how many bugs there are, and `what` they are like, and how many intended changes."""
    parts = [f"{plural(bugs, 'known bug')}{what}"] if bugs or not intended else []
    parts += [plural(intended, "intended change")] if intended else []
    return ", and ".join(parts)


def by_scope(bugs: Iterable[Bug]) -> str:
    """Return how many bugs fail in which precisions: `2 in half precision only`."""
    scopes = Counter(bug.scope for bug in bugs)
    return join([f"{scopes[scope]} in {scope}" for scope in Scope if scopes[scope]])


def count(states: Iterable[tuple[Bug, BugState | None]]) -> BugCount:
    """Count bugs, each with what became of it; those that cannot be met are left out."""
    known = list(states)
    return BugCount(
        of={
            state: tuple(bug for bug, one in known if one is state and not bug.is_intended)
            for state in BugState
        },
        intended=tuple(bug for bug, one in known if one is BugState.OPEN and bug.is_intended),
    )
