"""A set of packages as a file or an interpreter gives it: what is pinned, and what is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name
from packaging.version import Version


@dataclass(frozen=True, order=True, slots=True)
class Other:
    """A version of a package that a file holds for another platform or Python."""

    package: str
    version: str
    marker: str
    """Where it is meant for, in the file's words; empty where it does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A set of packages; names are canonical, versions those of PEP 440."""

    what: str
    """How a reader calls it: the path of a file or of an interpreter."""
    form: str
    """What it is: `uv.lock`, a requirements file, an interpreter."""
    pins: Mapping[str, str]
    loose: Mapping[str, str] = field(default_factory=dict)
    """Packages without one published version, and why: a range, an address, several versions."""
    whole: bool = True
    """Whether what is not named is not installed; a list written by hand says nothing of it."""
    python: str = ""
    """Major and minor version of the interpreter, where that is known."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """The platform that the markers were evaluated for."""
    conditional: bool = False
    """Whether the file holds different packages for different platforms or Pythons."""
    others: tuple[Other, ...] = ()
    """What it holds for others than this one, where the version is another."""
    nameless: int = 0
    """Addresses that do not say which package they are."""

    def version(self, package: str) -> str:
        """Return the version of a package, or nothing where none is pinned."""
        return self.pins.get(package, "")


@dataclass(kw_only=True, slots=True)
class Gathering:
    """Packages as they are read; one that is met in two versions is pinned in none."""

    versions: dict[str, set[str]] = field(default_factory=dict)
    loose: dict[str, str] = field(default_factory=dict)
    conditional: bool = False
    passed: set[Other] = field(default_factory=set)
    nameless: int = 0

    def pass_over(self, name: str, version: object, marker: str) -> None:
        """Note what is meant for another platform or Python."""
        self.passed.add(Other(canonicalize_name(name), str(version or ""), marker))

    def others(self) -> tuple[Other, ...]:
        """Return what was passed over in another version than the one that was taken."""
        return tuple(
            one
            for one in sorted(self.passed)
            if one.version and one.version not in self.versions.get(one.package, ())
        )

    def pin(self, name: str, version: str) -> None:
        """Note a version; what is no version of PEP 440 pins nothing."""
        try:
            found = str(Version(version))
        except ValueError:  # also for a number of 5,000 digits
            self.leave(name, f"{shown(version)!r} is no version")
        else:
            self.versions.setdefault(canonicalize_name(name), set()).add(found)

    def leave(self, name: str, why: str) -> None:
        """Note a package that is not pinned."""
        self.loose.setdefault(canonicalize_name(name), why)

    def pins(self) -> dict[str, str]:
        """Return the packages that have one version."""
        return {
            name: next(iter(found))
            for name, found in self.versions.items()
            if len(found) == 1 and name not in self.loose
        }

    def left(self) -> dict[str, str]:
        """Return the packages that have none, or several, with the reason."""
        several = {
            name: f"several versions: {', '.join(_ordered(found))}"
            for name, found in self.versions.items()
            if len(found) > 1
        }
        return several | self.loose


def _ordered(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=Version)


_SHORT = 40


def shown(text: str) -> str:
    """Return a text out of a file as part of a line: short, and obeyed by no terminal."""
    line = "".join(sign if sign.isprintable() else "�" for sign in text[:_SHORT])
    return line if len(text) <= _SHORT else f"{line}…"
