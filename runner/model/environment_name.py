"""Names of environments: `4.50.0`, `4.50.0+timm`, a pair `4.53.3+peft0.15.2`, `ms-swift3.3.0`.

Under another torch a release is `4.50.0+torch2.6.0`, and with extras `4.50.0+timm+torch2.6.0`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.errors import InvalidValue, refuse

_PACKAGE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
ALLOWED = "a release, `RELEASE+package` for an extra or `RELEASE+packageVERSION` for a version"


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentName:
    """The name of an environment, taken apart."""

    base: str
    """The release, `main`, or a whole name of another kind."""
    changed: tuple[tuple[str, str], ...] = ()
    """Packages that stand in another version than the base's lock has them."""
    extras: tuple[str, ...] = ()
    """Packages that are laid on top of the base without changing it."""

    @property
    def derived(self) -> bool:
        """Whether it is made from another environment."""
        return bool(self.changed or self.extras)


def with_extras(base: str, extras: Iterable[str]) -> str:
    """Return the name of an environment with its extras."""
    return "+".join([base, *extras])


_TORCH = re.compile(r"(?P<under>.+)\+torch(?P<version>\d[^+]*)")


def with_torch(name: str, version: str) -> str:
    """Return the name of an environment under another torch."""
    return f"{name}+torch{version}"


@functools.lru_cache(maxsize=4096)
def under_torch(name: str) -> tuple[str, str] | None:
    """Return what a torch is laid over, and its version; None where a name ends in no torch."""
    found = _TORCH.fullmatch(name)
    return (found["under"], found["version"]) if found else None


@functools.lru_cache(maxsize=4096)
def taken_apart(text: str) -> EnvironmentName:
    """Take a name apart; raises ValueError when a part names no package."""
    base, *parts = text.split("+")
    changed: list[tuple[str, str]] = []
    extras: list[str] = []
    for part in parts:
        package, version = _split(part)
        if version:
            changed.append((package, version))
        else:
            extras.append(package)
    return EnvironmentName(base=base, changed=tuple(changed), extras=tuple(extras))


def asked(text: str, where: str) -> EnvironmentName:
    """Take a name apart that somebody typed; raises RunnerError naming `where` it was."""
    try:
        return taken_apart(text)
    except ValueError as error:
        raise refuse(InvalidValue(where, text, ALLOWED)) from error


def stacked(text: str) -> tuple[str, str] | None:
    """Return the package and the version that a stack is named after; None for another name."""
    try:
        package, version = _split(text)
    except ValueError:
        return None
    return (package, version) if version else None


def _split(part: str) -> tuple[str, str]:
    """Cut before the first digit behind which a version stands; a package may hold digits too."""
    for place in (found.start() for found in re.finditer(r"\d", part)):
        package, version = part[:place].rstrip("-"), part[place:]
        if "." in version and _is_version(version) and _is_package(package):
            return package, version
    if not _is_package(part):
        msg = f"{part!r} is no package, with or without a version"
        raise ValueError(msg)
    return part, ""


def _is_package(text: str) -> bool:
    return bool(_PACKAGE.fullmatch(text)) and canonicalize_name(text) == text


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except ValueError:  # also for a number of 5,000 digits
        return False
    return True
