"""A set of packages, read from a file or an interpreter: what is pinned, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.text import shorten

SHORT = 40
"""Characters of a text out of a file that is part of a sentence."""


@dataclass(frozen=True, order=True, slots=True)
class Other:
    """A version of a package that a file holds for another platform or Python."""

    package: str
    version: str
    marker: str
    """The marker of the file; empty where it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A set of packages; names are canonical, versions those of PEP 440."""

    what: str
    """The path of the file or of the interpreter, as it was given."""
    form: str
    """Its format: `uv.lock`, a requirements file, an interpreter."""
    pins: Mapping[str, str]
    loose: Mapping[str, str] = field(default_factory=dict)
    """Packages without one published version, and why: a range, an address, several versions."""
    whole: bool = True
    """Whether a package that is not listed is not installed; unknown for a list written by hand."""
    python: str = ""
    """Major and minor version of the interpreter, where that is known."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """The platform that the markers were evaluated for."""
    conditional: bool = False
    """Whether the file holds different packages for different platforms or Pythons."""
    others: tuple[Other, ...] = ()
    """Versions for other platforms than this one, where they differ."""
    nameless: int = 0
    """Addresses that do not say which package they are."""

    def version(self, package: str) -> str:
        """Return the version of a package, or nothing where none is pinned."""
        return self.pins.get(package, "")


@dataclass(kw_only=True, slots=True)
class Gathering:
    """Packages as they are read; one that occurs in two versions is not pinned."""

    versions: dict[str, set[str]] = field(default_factory=dict)
    loose: dict[str, str] = field(default_factory=dict)
    conditional: bool = False
    passed: set[Other] = field(default_factory=set)
    nameless: int = 0

    def pass_over(self, name: str, version: object, marker: str) -> None:
        """Note what is meant for another platform or Python."""
        self.passed.add(Other(canonicalize_name(name), str(version or ""), marker))

    def others(self) -> tuple[Other, ...]:
        """Return the versions for other platforms that differ from the one for this platform."""
        return tuple(
            other
            for other in sorted(self.passed)
            if other.version and other.version not in self.versions.get(other.package, ())
        )

    def pin(self, name: str, version: str) -> None:
        """Note a version; a text that PEP 440 does not allow pins nothing."""
        try:
            canonical = str(Version(version))
        except ValueError:  # also for a number of 5,000 digits
            self.leave(name, f"{shorten(version, SHORT)!r} is not a version")
        else:
            self.versions.setdefault(canonicalize_name(name), set()).add(canonical)

    def leave(self, name: str, why: str) -> None:
        """Note a package that is not pinned."""
        self.loose.setdefault(canonicalize_name(name), why)

    def pins(self) -> dict[str, str]:
        """Return the packages that have one version."""
        return {
            name: next(iter(versions))
            for name, versions in self.versions.items()
            if len(versions) == 1 and name not in self.loose
        }

    def left(self) -> dict[str, str]:
        """Return the packages that have none, or several, with the reason."""
        several = {
            name: f"several versions: {', '.join(sorted(versions, key=Version))}"
            for name, versions in self.versions.items()
            if len(versions) > 1
        }
        return several | self.loose
