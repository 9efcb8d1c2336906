"""Locks of mixtures: packages of one environment in the versions of another, all else bound."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name

from repromatrix.runner import files
from repromatrix.runner.bisect.mixture import EnvironmentDifference, Taken
from repromatrix.runner.bisect.mixture import name as named
from repromatrix.runner.environments import locking
from repromatrix.runner.environments.locking import compile_lock
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.lock import Lock, inputs_digest, overlaid, read_lock
from repromatrix.runner.model.matrix import Matrix
from repromatrix.runner.paths import Paths

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
    places: Paths, matrix: Matrix, ends: Ends, between: EnvironmentDifference, taken: Taken
) -> Lock:
    """Return the lock of a mixture, resolved once and kept; raises UnresolvableError."""
    lines = _inputs(matrix, ends, taken)
    digest = inputs_digest(lines)
    path = places.mixtures / f"{digest}.txt"
    if not path.exists():
        head = "".join(f"# {line}\n" for line in (*lines, f"input: {digest}"))
        files.write(path, head + _resolved_or_refused(matrix, ends, between, taken))
    if refused := _REFUSED.search(path.read_text()):
        raise UnresolvableError(refused[1])
    text = "".join(line for line in path.read_text().splitlines(keepends=True) if line[0] != "#")
    return read_lock(text, named(between, taken), places.shown(path))


def varied(places: Paths, matrix: Matrix, base: Lock, name: str) -> Lock:
    """Return the lock of a pair that is in no table, resolved once; raises UnresolvableError."""
    path = places.mixtures / f"{inputs_digest(locking.derived_inputs(matrix, base, name))}.txt"
    if not path.exists():
        try:
            text = locking.resolve_derived(matrix, base, name)
        except RunnerError as error:
            raise UnresolvableError(in_short(error.faults[0].what, map(str, base.pins))) from error
        files.write(path, text)
    return overlaid(base, read_lock(path.read_text(), name, places.shown(path)))


def _resolved_or_refused(
    matrix: Matrix, ends: Ends, between: EnvironmentDifference, taken: Taken
) -> str:
    """Return a lock, or the line that says for good why there is none; raises UnresolvableError.

    What pins forbid is forbidden tomorrow; an index that does not answer today may answer then.
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
    held = {one.package: one.version(taken) for one in between.changes}
    asked = [end for lock in ends for end in _asked(lock)]
    wanted = dict.fromkeys(["transformers", *matrix.companions, *asked])
    bound = list(_bound(ends, between, taken))
    where = named(between, taken)
    try:
        return compile_lock(
            matrix,
            [package for package in wanted if held.get(package, "as it is")],
            until=None,
            where=where,
            bound=bound,
        )
    except RunnerError as error:
        reason = error.faults[0].what
        raise UnresolvableError(
            in_short(reason, bound), is_final=bool(_CONFLICT.search(reason))
        ) from error


def _asked(lock: Lock) -> tuple[str, ...]:
    parts = taken_apart(lock.name)
    return (*(package for package, _ in parts.changed), *parts.extras)


def _bound(ends: Ends, between: EnvironmentDifference, taken: Taken) -> Iterator[str]:
    """Yield the pins that hold in a mixture: a change's from its end, others from who has them.

    What only other platforms install and the ends pin differently is left open.
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
    """Return the resolver's reason without what follows from it.

    It words a constraint as a need of whatever stands beside it; here it is what is bound.
    """
    found = _CONFLICT.search(reason)
    text = found[1] if found else reason
    pinned = {pin.partition(";")[0].strip() for pin in bound}

    def said(match: re.Match[str]) -> str:
        return f"and this has {match[1]}" if match[1] in pinned else match[0]

    return _BOUND.sub(said, text).removeprefix("and ")[:_LIMIT]
