"""Ordered points along which ranges are derived: releases, pairs, stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from packaging.version import Version

from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source, belongs
from repromatrix.runner.model.environment_name import taken_apart, with_extras


class Point(NamedTuple):
    """What a point of an axis is called, and the environment that was measured there."""

    label: str
    environment: str


Axis = tuple[Point, ...]

_APART = frozenset({Source.PAIR, Source.STACK})


def axes(case: Case, environments: Mapping[str, Environment]) -> tuple[Axis, ...]:
    """Return the axes of a case: the columns of the table, then one per release that has pairs.

    On the axis of a pair stand the versions of the changed packages on one release, the release
    itself among them with the versions of its lock. Pairs with a package that their releases have
    not share an axis along the releases. Last comes one axis per program that there are stacks of,
    along its versions: a stack is no release of transformers.
    """
    own = [one for one in environments.values() if belongs(case, one)]
    releases = tuple(Point(one.column, one.name) for one in own if one.source not in _APART)
    pairs = [one for one in own if one.source is Source.PAIR]
    versions = _along_versions(pairs, environments)
    told = {point.environment for axis in versions for point in axis}
    added = _along_releases([one for one in pairs if not _is_change(one, environments)])
    return (
        releases,
        *versions,
        *(axis for axis in added if len(axis) > 1 or axis[0].environment not in told),
        *_of_stacks([one for one in own if one.source is Source.STACK]),
    )


def _along_versions(
    pairs: Sequence[Environment], environments: Mapping[str, Environment]
) -> tuple[Axis, ...]:
    """Return the axes on which more than one version stands."""
    groups: dict[tuple[str, tuple[str, ...]], list[Environment]] = {}
    for one in pairs:
        parts = taken_apart(one.name)
        packages = tuple(package for package, _ in parts.changed)
        groups.setdefault((with_extras(parts.base, parts.extras), packages), []).append(one)
    found = (_of_pairs(environments, *key, group) for key, group in groups.items())
    return tuple(axis for axis in found if len(axis) > 1)


def _is_change(pair: Environment, environments: Mapping[str, Environment]) -> bool:
    """Say whether the release of a pair has what the pair changes, in another version."""
    parts = taken_apart(pair.name)
    base = environments.get(with_extras(parts.base, parts.extras))
    return base is not None and all(base.version(package) for package, _ in parts.changed)


def _along_releases(pairs: Sequence[Environment]) -> Iterator[Axis]:
    groups: dict[str, list[Point]] = {}
    for one in pairs:
        parts = taken_apart(one.name)
        changed = ", ".join(f"{package} {version}" for package, version in parts.changed)
        base = with_extras(parts.base, parts.extras)
        groups.setdefault(changed, []).append(Point(f"{base} with {changed}", one.name))
    yield from map(tuple, groups.values())


def _of_stacks(stacks: Sequence[Environment]) -> Iterator[Axis]:
    for program in dict.fromkeys(one.program for one in stacks):
        found = [one for one in stacks if one.program == program]
        by_version = sorted(found, key=lambda one: Version(one.version(program)))
        yield tuple(Point(f"{program} {one.version(program)}", one.name) for one in by_version)


def _of_pairs(
    environments: Mapping[str, Environment],
    base: str,
    packages: tuple[str, ...],
    found: Sequence[Environment],
) -> Axis:
    every = [*found, *([environments[base]] if base in environments else [])]
    # A package that its base does not have has no place among the versions.
    points = [one for one in every if all(map(one.version, packages))]
    by_version = sorted(points, key=lambda one: [Version(one.version(name)) for name in packages])
    return tuple(Point(_label(one, packages, base), one.name) for one in by_version)


def _label(one: Environment, packages: Sequence[str], base: str) -> str:
    return ", ".join(f"{name} {one.version(name)}" for name in packages) + f" on {base}"
