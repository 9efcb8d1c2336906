"""The package whose version alone decides whether a case fails, and its failing versions. Pure.

A pair shows that nothing else has to change; that no measured environment contradicts it shows
that its version is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from repromatrix.runner.judging.axes import Axis
from repromatrix.runner.judging.ranges import Range, failing_ranges, fails
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Deciding:
    """A package and the ranges of its versions that fail; `born` where an older one cannot run."""

    package: str
    ranges: tuple[Range, ...]
    born: bool


def deciding(
    pairs: Sequence[Axis],
    environments: Mapping[str, Environment],
    seen: Mapping[str, Observation],
) -> Deciding | None:
    """Return what decides one series of a case; None where nothing was measured to do it alone.

    `pairs` are the axes behind the releases, `seen` maps an environment to its observation.
    """
    packages = {
        _changed(axis, environments)
        for axis in pairs
        if {True, False} <= {fails(seen.get(point.environment)) for point in axis}
    }
    if len(packages) != 1 or not (package := packages.pop()):
        return None
    versions: dict[str, list[Observation]] = {}
    for name, row in seen.items():
        if version := environments[name].version(package):
            versions.setdefault(version, []).append(row)
    if any({True, False} <= set(map(fails, rows)) for rows in versions.values()):
        return None
    order = sorted(versions, key=Version)
    ranges = failing_ranges(order, {version: _telling(rows) for version, rows in versions.items()})
    born = _telling(versions[order[0]]).outcome is Outcome.NOT_APPLICABLE
    return Deciding(package=package, ranges=ranges, born=born)


def _changed(axis: Axis, environments: Mapping[str, Environment]) -> str:
    """Return the one package that changes along the axis of a pair, nothing where several do.

    Between two stacks much more changes than the program that they are named after.
    """
    pairs = [
        point.environment for point in axis if environments[point.environment].source is Source.PAIR
    ]
    packages = [package for name in pairs[:1] for package, _ in taken_apart(name).changed]
    if len(packages) != 1:
        return ""
    versions = {environments[point.environment].version(packages[0]) for point in axis}
    return packages[0] if len(versions) > 1 else ""


def _telling(rows: Sequence[Observation]) -> Observation:
    """Return one that says something, if there is one."""
    return next((row for row in rows if fails(row) is not None), rows[0])
