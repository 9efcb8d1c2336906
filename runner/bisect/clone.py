"""A clone of one package: where its releases lie, and what each of its commits declares."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.version import Version

from repromatrix.runner.bisect import git_lines, places
from repromatrix.runner.bisect.git_lines import End, EndSource, Routes
from repromatrix.runner.bisect.repository import (
    OPTION,
    SHORT,
    Repository,
    as_version,
    find_sources,
    open_repository,
)
from repromatrix.runner.environments.commits import (
    FILES,
    Declaration,
    UndeclaredError,
    read_requirements,
)
from repromatrix.runner.environments.development import PackageSources, repository_of
from repromatrix.runner.errors import InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.evidence.commits import ENDS, LACKS, OWNER

_AT_ONCE = 64
"""Commits that touch the files which declare, listed in one call of git."""
_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


def commit_of(version: str) -> str:
    """Return the commit that a development version names; empty where it names none."""
    match = _COMMIT.fullmatch(Version(version).local or "")
    return match[1] if match else ""


@dataclass(frozen=True, kw_only=True)
class Clone:
    """A repository, the package whose sources it holds, and what was read of its commits.

    What takes git long in a large history is asked once, for all the searches in it.
    """

    repository: Repository
    sources: PackageSources
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the releases of each minor line were cut from main, in order."""
    read: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: dict[str, Declaration] = field(default_factory=dict)
    between: dict[tuple[End, End], Routes] = field(default_factory=dict)

    @cached_property
    def main(self) -> str:
        """The main branch, or `HEAD`."""
        return self.repository.newest_main()

    @cached_property
    def is_fork(self) -> bool:
        """Whether its origin is another repository than the one where its package is developed."""
        origin = repository_of(self.repository.folder)
        return bool(origin) and origin != f"{OWNER}/{self.sources.package}"

    @cached_property
    def is_dirty(self) -> bool:
        """Whether it holds changes that are not committed."""
        return self.repository.is_dirty()

    def named(self, revision: str, option: str) -> End:
        """Return the end that an option names by a revision; raises RunnerError."""
        commit = self.repository.revision(revision, option)
        if self.repository.blob(commit, self.sources.init) is None:
            expected = f"a revision with {self.sources.init}"
            raise refuse(InvalidValue(option, revision, expected))
        claims = self.repository.claims(commit, self.sources)
        return End(
            release="", revision=revision, commit=commit, claims=claims, by=EndSource.REVISION
        )

    def released(self, version: str) -> End:
        """Return where a version was released; raises RunnerError where nothing tells it."""
        return self._tagged(version) or self._placed(version, is_newer=False)

    def ends(self, older: str, newer: str) -> tuple[End, End]:
        """Return where two versions were released; raises RunnerError where nothing tells it.

        Two releases of one branch that the clone lacks are refused: what was picked to it is not
        always what made the difference on main.
        """
        first, last = self._tagged(older), self._tagged(newer)
        if not (first and last) and places.line_of(older) == places.line_of(newer):
            raise self._lacks(newer if first else older, f"they lie on one branch, and {LACKS}")
        return (
            first or self._placed(older, is_newer=False),
            last or self._placed(newer, is_newer=True),
        )

    def _tagged(self, version: str) -> End | None:
        """Return the end that a tag claims to be, or that a development version names itself."""
        if commit := commit_of(version):
            return self.named(commit, OPTION)
        line, wanted = places.line_of(version), Version(version)
        patterns = (f"refs/tags/v{line}.*", f"refs/tags/{line}.*")
        listed = self.repository.ask("for-each-ref", "--format=%(refname:strip=2)", *patterns) or ""
        # Tags of other versions come last: v5.10.3 of transformers claims to be 5.10.4.
        for tag in sorted(
            filter(as_version, listed.split()), key=lambda tag: Version(tag) != wanted
        ):
            sha = self.repository.resolve(f"refs/tags/{tag}")
            claims = self.repository.claims(sha, self.sources) if sha else ""
            if sha and as_version(claims) == wanted:
                return End(release=str(wanted), revision=tag, commit=sha, claims=claims)
        return None

    def _placed(self, version: str, *, is_newer: bool) -> End:
        """Return where a release without a tag was cut from main; raises RunnerError.

        A patch release holds what was picked from main until the next line was cut: as the newer
        end that place stands for it, or the newest commit where no later line is known.
        """
        line = places.line_of(version)
        if is_newer and Version(version).micro:
            line = next((name for name in self.places if Version(name) > Version(line)), "")
        place = self.places.get(line, "") if line else self.main
        commit = self.repository.resolve(place)
        if commit is None:
            raise self._lacks(version, ENDS if place else f"{LACKS}, and no place on main is known")
        stands = f"the commit from which {line} was cut" if line else "its newest commit"
        return End(
            release=version,
            revision=f"the cut of {line}" if line else place.rpartition("/")[2],
            commit=commit,
            claims=self.repository.claims(commit, self.sources),
            by=EndSource.PLACE,
            note=f"{version} is not in the clone; {stands}, {commit[:SHORT]}, stands for it",
        )

    def _lacks(self, version: str, why: str) -> RunnerError:
        """Say that a clone does not tell where a version is, and what to do."""
        what = f"no tag claims to be {self.sources.package} {version}"
        for tag in (f"v{version}", version):
            if sha := self.repository.resolve(f"refs/tags/{tag}"):
                what += (
                    f"; {tag} claims {self.repository.claims(sha, self.sources) or 'no version'}"
                )
        fix = (
            "Fetch the tags with `git fetch --tags`, give --good and --bad, or add the place of a"
            " release: `nox -s history -- --places --repo CLONE`."
        )
        return refuse(Problem(self.repository.where, f"{what}; {why}", fix))

    def routes(self, older: End, newer: End) -> Routes:
        """Return the lines between two ends; raises RunnerError where there is no way."""
        ends = (older, newer)
        if ends not in self.between:
            self.between[ends] = git_lines.between(self.repository, self.main, *ends)
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
            content, since = self._read(commit), commit
            paths = (*FILES, self.sources.init)
            options = ("--first-parent", "--format=%H", f"--max-count={_AT_ONCE}")
            for touched in self.repository.read("log", *options, commit, "--", *paths).split():
                if self._read(touched) != content:
                    break
                since = touched
            day = self.repository.read("log", "-1", "--format=%cI", since).strip()
            self.known[commit] = Declaration(
                package=self.sources.package,
                requirements=content[1:],
                day=dt.datetime.fromisoformat(day).astimezone(dt.UTC).date(),
            )
        return self.known[commit]

    def _read(self, commit: str) -> tuple[str, ...]:
        if commit not in self.read:
            needed = read_requirements(lambda path: self.repository.blob(commit, path))
            claims = self.repository.claims(commit, self.sources)
            self.read[commit] = (claims, *map(str, needed))
        return self.read[commit]


def open_clones(folders: Iterable[Path], known_places: Path | None = None) -> tuple[Clone, ...]:
    """Return the clones that `--repo` names; raises RunnerError where one does not serve."""
    clones = tuple(open_clone(folder, known_places) for folder in folders)
    packages = [clone.sources.package for clone in clones]
    if twice := [name for name in dict.fromkeys(packages) if packages.count(name) > 1]:
        raise refuse(Problem(OPTION, f"{twice[0]} is given twice"))
    return clones


def open_clone(folder: Path, known_places: Path | None = None) -> Clone:
    """Return the clone in a folder; raises RunnerError where it does not serve.

    `known_places` is the file that says where releases were cut from main.
    """
    repository = open_repository(folder.expanduser().resolve())
    sources = find_sources(repository, repository.tip())
    known = places.read(known_places) if known_places else {}
    return Clone(repository=repository, sources=sources, places=known.get(sources.package, {}))
