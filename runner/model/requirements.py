"""Requirements compared with installed versions.

Development and pre-releases count as the release that they will become: `5.24.0.dev0` satisfies
`>=5.24`. Without that rule a development build falls through both `>=5.24` and `<5.24`
(packaging orders it before its release, and `<5.24` excludes pre-releases of 5.24).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

Pins = Mapping[str, str]

_LONG_NUMBER = re.compile(r"\d{101}")
"""packaging reads such a version only when it is asked, and then Python refuses."""


@functools.lru_cache(maxsize=4096)
def settled(version: str) -> Version:
    """Return the release that a version is or will become."""
    parsed = Version(version)
    return Version(parsed.base_version) if parsed.is_prerelease else parsed


def without_long_numbers(text: str) -> str:
    """Return a text with versions that Python can read; raises ValueError for any other."""
    if _LONG_NUMBER.search(text):
        msg = "a number of more than 100 digits is in no version"
        raise ValueError(msg)
    return text


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Requirement:
    """Read one PEP 508 requirement; raises ValueError with packaging's reason."""
    try:
        return Requirement(without_long_numbers(text))
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise ValueError(reason) from error


def holds(requirement: Requirement, pins: Pins, markers: Mapping[str, str]) -> bool:
    """Say whether the installed versions satisfy a requirement; extras are ignored."""
    if requirement.marker is not None and not requirement.marker.evaluate(dict(markers)):
        return True
    installed = pins.get(canonicalize_name(requirement.name))
    if installed is None:
        return False
    return _within(requirement.specifier, installed)


_ANSWERS: dict[int, tuple[SpecifierSet, dict[str, bool]]] = {}
"""By a specifier's identity, since to hash one costs as much as to ask it; it is kept with them."""


def _within(specifier: SpecifierSet, installed: str) -> bool:
    """Say whether a version is within a specifier; a few are asked about in every cell."""
    _, answers = _ANSWERS.setdefault(id(specifier), (specifier, {}))
    if installed not in answers:
        answers[installed] = specifier.contains(settled(installed), prereleases=True)
    return answers[installed]


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
