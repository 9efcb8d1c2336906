"""A clone of one package: its repository, and what each of its commits declares that it needs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect.git_lines import Points, Routes, TaggedCommit
from repromatrix.runner.bisect.repository import OPTION, Repository, find_sources, open_repository
from repromatrix.runner.environments.commits import (
    FILES,
    Declaration,
    UndeclaredError,
    read_requirements,
)
from repromatrix.runner.environments.development import PackageSources, repository_of
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.evidence.commits import OWNER

_AT_ONCE = 64
"""Commits that touch the files which declare, listed in one call of git."""


@dataclass(frozen=True, kw_only=True)
class Clone:
    """A repository, the package whose sources it holds, and what was read of its commits.

    Whatever takes git long in a large history is asked once, for all the searches in it.
    """

    repository: Repository
    sources: PackageSources
    read: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: dict[str, Declaration] = field(default_factory=dict)
    between: dict[tuple[TaggedCommit, TaggedCommit], Routes] = field(default_factory=dict)

    @cached_property
    def points(self) -> Points:
        """The releases whose commit it tells, by version."""
        return git_lines.release_points(self.repository, self.sources)

    @cached_property
    def main(self) -> str:
        """The main branch, or `HEAD`."""
        return git_lines.newest_main(self.repository)

    @cached_property
    def is_fork(self) -> bool:
        """Whether its origin is another repository than the one where its package is developed."""
        origin = repository_of(self.repository.folder)
        return bool(origin) and origin != f"{OWNER}/{self.sources.package}"

    @cached_property
    def is_dirty(self) -> bool:
        """Whether it holds changes that are not committed."""
        return self.repository.is_dirty()

    def routes(self, older: TaggedCommit, newer: TaggedCommit) -> Routes:
        """Return the lines between two ends; raises RunnerError where there is no way."""
        ends = (older, newer)
        if ends not in self.between:
            self.between[ends] = git_lines.between(self.repository, *ends)
        return self.between[ends]

    def needs(self, commit: str) -> tuple[str, ...]:
        """Return the requirements of a commit; none where they cannot be read."""
        try:
            return self._read(commit)[1:]
        except UndeclaredError:
            return ()

    def declared(self, commit: str) -> Declaration:
        """Return what a commit declares; raises UndeclaredError where it cannot be read.

        Its day is that of the first commit in a row, along first parents, which declares the same
        and claims the same version: neighbours share an environment, and none of its packages is
        younger than any of them.
        """
        if commit not in self.known:
            said = self._read(commit)
            since = self._since(commit, said)
            day = self.repository.read("log", "-1", "--format=%cI", since).strip()
            self.known[commit] = Declaration(
                package=self.sources.package,
                requirements=said[1:],
                day=dt.datetime.fromisoformat(day).astimezone(dt.UTC).date(),
            )
        return self.known[commit]

    def _read(self, commit: str) -> tuple[str, ...]:
        """Return the version that a commit claims, and what it needs."""
        if commit not in self.read:
            found = read_requirements(lambda path: self.repository.blob(commit, path))
            claims = self.repository.claims(commit, self.sources)
            self.read[commit] = (claims, *map(str, found))
        return self.read[commit]

    def _since(self, commit: str, said: tuple[str, ...]) -> str:
        since = commit
        for touched in self._touching(commit):
            if self._read(touched) != said:
                return since
            since = touched
        return since

    def _touching(self, commit: str) -> list[str]:
        paths = (*FILES, self.sources.init)
        options = ("--first-parent", "--format=%H", f"--max-count={_AT_ONCE}")
        return self.repository.read("log", *options, commit, "--", *paths).split()


def open_clones(folders: Iterable[Path]) -> tuple[Clone, ...]:
    """Return the clones that `--repo` names; raises RunnerError where one does not serve."""
    clones = tuple(open_clone(folder.expanduser().resolve()) for folder in folders)
    packages = [clone.sources.package for clone in clones]
    if twice := [name for name in dict.fromkeys(packages) if packages.count(name) > 1]:
        raise refuse(Problem(OPTION, f"{twice[0]} is given twice"))
    return clones


def open_clone(folder: Path) -> Clone:
    """Return the clone in a folder; raises RunnerError where it does not serve."""
    repository = open_repository(folder)
    return Clone(repository=repository, sources=find_sources(repository, repository.tip()))
