"""Half-open intervals of versions that hold in the failing environments and in no other. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from runner.model import requirements
from runner.model.naming import taken_apart
from runner.model.requirements import settled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from runner.model.cell import Environment

_RELEASE = "transformers"
When = tuple[str, ...]


def spans(
    measured: Mapping[str, Environment], failing: Collection[str], pairs: Iterable[str]
) -> tuple[When, ...]:
    """Return requirements, one tuple per interval, that hold exactly in the failing environments.

    `measured` are the environments with an answer; the others neither open nor close an interval.
    Where pairs tell the versions of another package apart, that package is named; transformers
    is added where it alone does not decide. Nothing is returned where intervals cannot say it.
    """
    others = sorted({package for name in pairs for package, _ in taken_apart(name).changed})
    for package in [*others, _RELEASE]:
        found: tuple[When, ...] = tuple(
            (text,) for text in _along(package, measured.values(), failing)
        )
        if found and _exact(found, measured, failing):
            return found
    for package in others:
        found = _rectangles(package, measured, failing)
        if found and _exact(found, measured, failing):
            return found
    return ()


def _rectangles(
    package: str, measured: Mapping[str, Environment], failing: Collection[str]
) -> tuple[When, ...]:
    """Cut by the other package first, then by release within each of its intervals."""
    bad = [measured[name] for name in failing]
    known = _ordered({one.version(package) for one in measured.values()} - {""})
    wanted = {one.version(package) for one in bad}
    found: list[When] = []
    for text in _intervals(package, known, wanted):
        within = {
            name: one
            for name, one in measured.items()
            if requirements.holds(Requirement(text), one.pins, one.markers)
        }
        found += [(text, release) for release in _along(_RELEASE, within.values(), failing)]
    return tuple(found)


def _along(
    package: str, measured: Iterable[Environment], failing: Collection[str]
) -> tuple[str, ...]:
    versions: dict[str, set[bool]] = {}
    for one in measured:
        versions.setdefault(one.version(package), set()).add(one.name in failing)
    if "" in versions or any(len(said) > 1 for said in versions.values()):
        return ()
    return _intervals(
        package, _ordered(versions), {name for name in versions if True in versions[name]}
    )


def _ordered(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=Version)


def _intervals(package: str, known: Sequence[str], wanted: Collection[str]) -> tuple[str, ...]:
    """Join neighbours: an interval ends where the next known version is not wanted."""
    found: list[str] = []
    start = ""
    for version in known:
        if version in wanted:
            start = start or version
        elif start:
            found.append(f"{package}>={settled(start).public},<{settled(version).public}")
            start = ""
    return (*found, f"{package}>={settled(start).public}") if start else tuple(found)


def _exact(
    found: Sequence[When], measured: Mapping[str, Environment], failing: Collection[str]
) -> bool:
    parsed = [[Requirement(text) for text in when] for when in found]
    return {
        name
        for name, one in measured.items()
        if any(
            all(requirements.holds(part, one.pins, one.markers) for part in when) for when in parsed
        )
    } == set(failing)
