"""What differs between two environments, and what stands between them: mixtures of the two."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.environment_name import taken_apart, with_extras
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
        other = tuple(one for one in self.changes if one.package in taken)
        left = tuple(one for one in self.changes if one.package not in taken)
        return (self.good, other) if len(other) <= len(left) else (self.bad, left)

    def company(self, pins: Mapping[str, str], taken: Taken) -> tuple[str, ...]:
        """Name what comes along in a mixture, and what goes, beside what it changes on purpose."""
        end = self.swapped(taken)[0].pins
        here = [name for name in sorted(self.along) if (name in pins) != (name in end)]
        return tuple(f"+{name} {pins[name]}" if name in pins else f"-{name}" for name in here)


def difference(
    good: Environment, bad: Environment, likely: Iterable[str] = ()
) -> EnvironmentDifference:
    """Compare two environments; torch is the same everywhere and is no change.

    What only one end has is a change where that end's name asks for it, else it comes along with
    what needs it. `likely` packages are tried before all others.
    """
    asked = {*_asked(good), *_asked(bad)}
    changes: list[PackageChange] = []
    along: dict[str, str] = {}
    for name in sorted({*good.pins, *bad.pins} - {"torch"}):
        here, there = good.version(name), bad.version(name)
        if here != there and ((here and there) or name in asked):
            changes.append(PackageChange(package=name, good=here, bad=there))
        elif here != there:
            along[name] = here or there
    order = [*likely, *DECIDING]
    rank = {name: order.index(name) for name in order}
    changes.sort(key=lambda one: (rank.get(one.package, len(order)), one.package))
    return EnvironmentDifference(good=good, bad=bad, changes=tuple(changes), along=along)


def _asked(environment: Environment) -> tuple[str, ...]:
    parts = taken_apart(environment.name)
    return (*(package for package, _ in parts.changed), *parts.extras)


def name(ends: EnvironmentDifference, taken: Taken) -> str:
    """Name a mixture after the nearer end and what it changes of it; many are shortened."""
    end, swapped = ends.swapped(taken)
    if not swapped:
        return end.name
    parts = taken_apart(end.name)
    changed = dict(parts.changed)
    for one in swapped:
        changed[one.package] = one.version(taken)
    if len(swapped) > _NAMED or not all(changed.values()):
        return f"{end.name}@{_digest(swapped, taken)}"
    versions = (f"{package}{version}" for package, version in changed.items())
    return with_extras(with_extras(parts.base, versions), parts.extras)


def _digest(swapped: Iterable[PackageChange], taken: Taken) -> str:
    held = " ".join(f"{one.package}{one.version(taken)}" for one in swapped)
    return hashlib.sha256(held.encode()).hexdigest()[:8]
