"""Locks of derived environments: what a pair or extras change of a release, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from runner.environments.pinning import COOLING, compile_lock
from runner.model.lock import Lock, difference, inputs_digest
from runner.model.naming import Name, taken_apart

if TYPE_CHECKING:
    import datetime as dt

    from runner.model.matrix import Matrix


def inputs(matrix: Matrix, base: Lock, name: str) -> tuple[str, ...]:
    """Return what a derived lock is resolved from, one fact per line."""
    parts = taken_apart(name)
    return (
        f"on {base.name} {base.digest}",
        *(f"{package}=={version}" for package, version in parts.changed),
        *parts.extras,
        *(
            f"{one.name} needs {requirement}"
            for one in matrix.sdists_among(dict(parts.changed))
            for requirement in one.requires
        ),
        f"as of {_until(matrix, parts)}",
    )


def resolve(matrix: Matrix, base: Lock, name: str) -> str:
    """Return the text of a derived lock; raises RunnerError with the resolver's reason.

    Every other pin of the base stands, so that a difference between the two is never theirs. A
    version that needs more than itself changed is given so: `4.53.3+peft0.15.2+accelerate1.6.0`.
    """
    parts = taken_apart(name)
    changed = dict(parts.changed)
    wanted = [
        f"transformers=={parts.base}",
        *(package for package in matrix.companions if package not in changed),
        *(f"{package}=={version}" for package, version in parts.changed),
        *parts.extras,
    ]
    kept = [str(pin) for pin in base.pins if canonicalize_name(pin.name) not in changed]
    # What the base pins is bound already; it may stand in an index without a day.
    named = [*changed, *parts.extras]
    until = _until(matrix, parts)
    whole = compile_lock(matrix, wanted, until=until, where=name, bound=kept, dated=named)
    lines = inputs(matrix, base, name)
    head = (
        f"# Made by: nox -s lock -- {name}\n"
        f"# {lines[-1]}; only what differs from {base.name}.txt.\n"
        f"# input: {inputs_digest(lines)}\n"
    )
    return head + difference(base.text, whole)


def _until(matrix: Matrix, parts: Name) -> dt.date:
    """Take extras as old as their release; a pair may be younger than it, torch's day bounds it."""
    if parts.changed:
        return matrix.torch.as_of
    names = {release.name for release in matrix.releases}
    day = matrix.release(parts.base).date if parts.base in names else matrix.releases[-1].date
    return day + COOLING
