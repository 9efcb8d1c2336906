"""Requirements held against installed versions.

Development and pre-releases count as the release that they will become: `5.24.0.dev0` satisfies
`>=5.24`. Without that rule a development build falls through both `>=5.24` and `<5.24`
(packaging orders it before its release, and `<5.24` excludes pre-releases of 5.24).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Pins = Mapping[str, str]


@functools.lru_cache(maxsize=4096)
def settled(version: str) -> Version:
    """Return the release that a version is or will become."""
    parsed = Version(version)
    return Version(parsed.base_version) if parsed.is_prerelease else parsed


def parse(text: str) -> Requirement:
    """Read one PEP 508 requirement; raises ValueError with packaging's reason."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise ValueError(reason) from error


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Requirement:
    """Read a requirement that was read before; raises ValueError with packaging's reason."""
    return parse(text)


def holds(requirement: Requirement, pins: Pins, markers: Mapping[str, str]) -> bool:
    """Say whether the installed versions satisfy a requirement; extras are ignored."""
    if requirement.marker is not None and not requirement.marker.evaluate(dict(markers)):
        return True
    installed = pins.get(canonicalize_name(requirement.name))
    if installed is None:
        return False
    return requirement.specifier.contains(settled(installed), prereleases=True)


def unsatisfied(
    requirements: Iterable[Requirement], pins: Pins, markers: Mapping[str, str]
) -> tuple[str, ...]:
    """Name every requirement that does not hold, with what is installed instead."""
    missing = []
    for requirement in requirements:
        if not holds(requirement, pins, markers):
            installed = pins.get(canonicalize_name(requirement.name), "nothing")
            missing.append(f"needs {requirement}, has {installed}")
    return tuple(missing)
