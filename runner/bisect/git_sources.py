"""Which package a repository holds, and which version it claims to be at a commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.version import Version

from repromatrix.runner.bisect.git import OPTION
from repromatrix.runner.errors import OldFault, refuse
from repromatrix.runner.model.packages import MOVED

if TYPE_CHECKING:
    from repromatrix.runner.bisect.git import Repository

_ROOTS = ("src", "")
_CLAIM = re.compile(r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']""", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSources:
    """A package, and the folder of a checkout that is put in front on the path for it."""

    package: str
    root: str

    @property
    def folder(self) -> str:
        """Where its modules are in a checkout."""
        return str(PurePosixPath(self.root) / self.package)

    @property
    def init(self) -> str:
        """The file that claims a version."""
        return f"{self.folder}/__init__.py"

    def claimed(self, repository: Repository, commit: str) -> str:
        """Return the version that the package claims at a commit; empty where it claims none."""
        return claimed(repository.blob(commit, self.init) or "")


def claimed(text: str) -> str:
    """Return the version that an `__init__.py` assigns; empty where that is none."""
    found = _CLAIM.search(text)
    try:
        return str(Version(found[1])) if found else ""
    except ValueError:  # also for a number of 5,000 digits
        return ""


def find_sources(repository: Repository, commit: str) -> PackageSources:
    """Return the package of ours that a commit holds; raises RunnerError where it holds none."""
    for package in MOVED:
        for root in _ROOTS:
            sources = PackageSources(package=package, root=root)
            if repository.blob(commit, sources.init) is not None:
                return sources
    raise refuse(
        OldFault(
            where=f"{OPTION} {repository.folder}",
            found=f"no sources of {', '.join(MOVED[:-1])} or {MOVED[-1]} at {commit[:12]}",
            allowed="a clone of one of them",
            fix="Name the clone of the package that the releases differ in.",
        )
    )


def tip(repository: Repository) -> str:
    """Return a commit to look at; raises RunnerError where a repository has none."""
    for name in ("HEAD", "--all"):
        found = repository.ask("rev-list", "--max-count=1", name)
        if found and found.strip():
            return found.strip()
    found, allowed = "a repository without commits", "a clone of the package"
    raise refuse(OldFault(where=f"{OPTION} {repository.folder}", found=found, allowed=allowed))
