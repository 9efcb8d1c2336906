"""From a release to the commit that it was made from: a tag, and the version claimed there.

The two may differ: the tag v5.10.3 of transformers claims 5.10.4, and the index has no 5.10.3.
The release of the index is what was measured, so the claim decides, and both are recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from runner.errors import Fault, refuse
from runner.history.repository import OPTION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.history.repository import Repository
    from runner.history.sources import Sources

_NEIGHBOURS = 12
_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """One end of a search: what it was called, its commit, and the version that it claims."""

    wanted: str
    """The version of the release; empty where a revision was named instead."""
    revision: str
    """The tag, or the revision as it was named."""
    commit: str
    claims: str

    @property
    def agrees(self) -> bool:
        """Whether the tag is the one that is named after the version that it claims."""
        return self.revision in {f"v{self.claims}", self.claims} or not self.wanted


def named(repository: Repository, sources: Sources, revision: str, option: str) -> Mark:
    """Return the end that somebody named by a revision; raises RunnerError."""
    commit = repository.revision(revision, option)
    return Mark(
        wanted="",
        revision=revision,
        commit=commit,
        claims=_checked(repository, sources, revision, commit, option),
    )


def _checked(
    repository: Repository, sources: Sources, revision: str, commit: str, option: str
) -> str:
    if repository.blob(commit, sources.init) is None:
        found = f"{revision!r}, which has no {sources.init}"
        allowed = f"a revision that holds {sources.package}"
        raise refuse(Fault(where=option, found=found, allowed=allowed))
    return sources.claimed(repository, commit)


def released(repository: Repository, sources: Sources, version: str) -> Mark:
    """Return the tag that a version was released from; raises RunnerError where there is none.

    A development version names its commit itself: `5.24.0.dev0+g0123456789ab`.
    """
    commit = _COMMIT.fullmatch(Version(version).local or "")
    if commit:
        return named(repository, sources, commit[1], OPTION)
    tags = _tags(repository)
    for tag in _nearest(tags, Version(version)):
        found = repository.resolve(f"refs/tags/{tag}")
        if found and sources.claimed(repository, found) == str(Version(version)):
            return Mark(wanted=version, revision=tag, commit=found, claims=version)
    raise _missing(repository, sources, version, tags)


def _tags(repository: Repository) -> dict[str, Version]:
    """Return the tags that are versions."""
    names = repository.read("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").split()
    return {name: parsed for name in names if (parsed := _version(name)) is not None}


def _version(tag: str) -> Version | None:
    try:
        return Version(tag)
    except ValueError:  # also for a number of 5,000 digits
        return None


def _nearest(tags: dict[str, Version], version: Version) -> Iterable[str]:
    """Return tags, that of the version first, then its neighbours by their order."""
    ordered = sorted(tags, key=lambda tag: tags[tag])
    at = next((n for n, tag in enumerate(ordered) if tags[tag] >= version), len(ordered))
    return sorted(ordered, key=lambda tag: abs(ordered.index(tag) - at))[:_NEIGHBOURS]


def _missing(
    repository: Repository, sources: Sources, version: str, tags: dict[str, Version]
) -> Exception:
    named_so = next((tag for tag in tags if tags[tag] == Version(version)), "")
    found = f"no tag that claims {sources.package} {version}"
    if named_so:
        commit = repository.resolve(f"refs/tags/{named_so}") or ""
        other = sources.claimed(repository, commit) or "no version"
        found = f"{found}; {named_so} claims {other}"
    fault = Fault(
        where=f"{OPTION} {repository.folder}",
        found=found,
        allowed="a tag per release, as v4.50.3",
        remedy="Fetch them with `git fetch --tags`, or name --good and --bad.",
    )
    return refuse(fault)
