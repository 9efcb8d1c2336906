"""Where a case runs that needs what no release by itself has: in stacks, or in pairs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.model.cell import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.model.case import Case
    from runner.model.cell import Environment


def in_releases(environments: Iterable[Environment]) -> frozenset[str]:
    """Return the packages that releases have, any of them."""
    releases = (one for one in environments if one.source in {Source.RELEASE, Source.MAIN})
    return frozenset(name for one in releases for name in one.pins)


def only_in(
    case: Case, environments: Iterable[Environment], held: frozenset[str]
) -> tuple[Environment, ...]:
    """Return the stacks of a program that a case needs, or the pairs that have what it lacks.

    `held` is what releases have; of a case that needs no more there is nothing to return.
    """
    lacking = case.packages - held - {*case.extras}
    if not lacking:
        return ()
    every = tuple(environments)
    stacks = tuple(one for one in every if one.program in case.packages)
    pairs = (one for one in every if one.name in case.block.environments)
    return stacks or tuple(one for one in pairs if all(map(one.version, lacking)))
