"""Mixtures of two environments: what differs between the two, and locks that lie between them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from packaging.utils import canonicalize_name

from repromatrix.runner import files
from repromatrix.runner.environments import locks
from repromatrix.runner.environments.locks import compile_lock
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.environment_name import taken_apart, with_extras
from repromatrix.runner.model.lock import Lock, inputs_digest, overlaid, read_lock
from repromatrix.runner.model.matrix import Matrix
from repromatrix.runner.model.packages import DECIDING
from repromatrix.runner.paths import Paths

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

    def company(self, pins: Mapping[str, str], taken: Taken) -> tuple[str, ...]:
        """Name the packages that others bring into a mixture (`+`) or take out of it (`-`)."""
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
    requested = {*_requested(good.name), *_requested(bad.name)}
    changes: list[PackageChange] = []
    along: dict[str, str] = {}
    for name in sorted({*good.pins, *bad.pins} - {"torch"}):
        here, there = good.version(name), bad.version(name)
        if here != there and ((here and there) or name in requested):
            changes.append(PackageChange(package=name, good=here, bad=there))
        elif here != there:
            along[name] = here or there
    order = [*likely, *DECIDING]
    rank = {name: order.index(name) for name in order}
    changes.sort(key=lambda change: (rank.get(change.package, len(order)), change.package))
    return EnvironmentDifference(good=good, bad=bad, changes=tuple(changes), along=along)


def _requested(name: str) -> tuple[str, ...]:
    """Return the packages that the name of an environment asks for."""
    parts = taken_apart(name)
    return (*(package for package, _ in parts.changed), *parts.extras)


def mixture_name(ends: EnvironmentDifference, taken: Taken) -> str:
    """Name a mixture after the nearer end and what it changes of it; many are shortened."""
    end, swapped = ends.swapped(taken)
    if not swapped:
        return end.name
    parts = taken_apart(end.name)
    changed = dict(parts.changed)
    changed.update((change.package, change.version(taken)) for change in swapped)
    if len(swapped) > _NAMED or not all(changed.values()):
        pins = " ".join(f"{change.package}{change.version(taken)}" for change in swapped)
        return f"{end.name}@{hashlib.sha256(pins.encode()).hexdigest()[:8]}"
    versions = (f"{package}{version}" for package, version in changed.items())
    return with_extras(with_extras(parts.base, versions), parts.extras)


_CONFLICT = re.compile(r"Because (.*? depends on .*?), we can conclude")
_BOUND = re.compile(r"(?:and )?\S+ depends on (\S+==[^\s,]+)")
_REFUSED = re.compile(r"(?m)^# unresolvable: (.*)$")
_LIMIT = 240


class UnresolvableError(Exception):
    """No environment holds these versions together; the text is the resolver's reason in short."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        """Keep the reason, and whether it lies in the packages alone."""
        self.is_final = is_final
        super().__init__(reason)


class Ends(NamedTuple):
    """The locks of the good and of the bad environment."""

    good: Lock
    bad: Lock


def mixed(
    paths: Paths, matrix: Matrix, ends: Ends, between: EnvironmentDifference, taken: Taken
) -> Lock:
    """Return the lock of a mixture, resolved once and kept; raises UnresolvableError."""
    lines = _inputs(matrix, ends, taken)
    digest = inputs_digest(lines)
    path = paths.mixtures / f"{digest}.txt"
    if not path.exists():
        head = "".join(f"# {line}\n" for line in (*lines, f"input: {digest}"))
        files.write(path, head + _resolved_or_refused(matrix, ends, between, taken))
    if refused := _REFUSED.search(path.read_text()):
        raise UnresolvableError(refused[1])
    text = "".join(line for line in path.read_text().splitlines(keepends=True) if line[0] != "#")
    return read_lock(text, mixture_name(between, taken), paths.shown(path))


def varied(paths: Paths, matrix: Matrix, base: Lock, name: str) -> Lock:
    """Return the lock of an unlisted pair, resolved once and kept; raises UnresolvableError."""
    path = paths.mixtures / f"{inputs_digest(locks.derived_inputs(matrix, base, name))}.txt"
    if not path.exists():
        try:
            text = locks.resolve_derived(matrix, base, name)
        except RunnerError as error:
            raise UnresolvableError(in_short(error.faults[0].what, map(str, base.pins))) from error
        files.write(path, text)
    return overlaid(base, read_lock(path.read_text(), name, paths.shown(path)))


def _resolved_or_refused(
    matrix: Matrix, ends: Ends, between: EnvironmentDifference, taken: Taken
) -> str:
    """Return a lock, or the line that says why there is none; raises UnresolvableError.

    Only a conflict of pins is kept: an index that does not answer today may answer tomorrow.
    """
    try:
        return _resolved(matrix, ends, between, taken)
    except UnresolvableError as error:
        if not error.is_final:
            raise
        return f"# unresolvable: {error}\n"


def _inputs(matrix: Matrix, ends: Ends, taken: Taken) -> tuple[str, ...]:
    """Return what a mixture is resolved from, one fact per line."""
    return (
        f"of {ends.good.name} {ends.good.digest}",
        f"with {', '.join(sorted(taken))} of {ends.bad.name} {ends.bad.digest}",
        f"torch=={matrix.torch.version}, python {matrix.python}",
    )


def _resolved(matrix: Matrix, ends: Ends, between: EnvironmentDifference, taken: Taken) -> str:
    """Resolve with a constraint for every package that either end has."""
    versions = {change.package: change.version(taken) for change in between.changes}
    requested = [package for lock in ends for package in _requested(lock.name)]
    wanted = dict.fromkeys(["transformers", *matrix.companions, *requested])
    bound = list(_bound(ends, between, taken))
    try:
        return compile_lock(
            matrix,
            [package for package in wanted if versions.get(package, "as it is")],
            until=None,
            where=mixture_name(between, taken),
            bound=bound,
        )
    except RunnerError as error:
        reason = error.faults[0].what
        raise UnresolvableError(
            in_short(reason, bound), is_final=bool(_CONFLICT.search(reason))
        ) from error


def _bound(ends: Ends, between: EnvironmentDifference, taken: Taken) -> Iterator[str]:
    """Yield the pins of a mixture: of a change from its end, of others from whoever has them.

    What only other platforms install, and the ends pin differently, is left to the resolver.
    """
    good, bad = _lines(ends.good), _lines(ends.bad)
    for package in {**good, **bad}:
        here, there = good.get(package, []), bad.get(package, [])
        if package in between.everything:
            yield from there if package in taken else here
        elif package in between.good.pins or not there or here == there:
            yield from here
        elif package in between.bad.pins or not here:
            yield from there


def _lines(lock: Lock) -> dict[str, list[str]]:
    """Return the pins by package: there may be one for each of several platforms."""
    found: dict[str, list[str]] = {}
    for pin in lock.pins:
        found.setdefault(canonicalize_name(pin.name), []).append(str(pin))
    return found


def in_short(reason: str, bound: Iterable[str] = ()) -> str:
    """Return the resolver's reason without its conclusions.

    uv words a constraint as a need of the package beside it; here it is a pin of the mixture.
    """
    found = _CONFLICT.search(reason)
    text = found[1] if found else reason
    pinned = {pin.partition(";")[0].strip() for pin in bound}

    def said(match: re.Match[str]) -> str:
        return f"and this has {match[1]}" if match[1] in pinned else match[0]

    return _BOUND.sub(said, text).removeprefix("and ")[:_LIMIT]
