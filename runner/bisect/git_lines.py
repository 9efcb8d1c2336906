"""Which commits lie between two releases: tags, branch lines, and cherry-picks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.version import Version

from repromatrix.runner.bisect.repository import OPTION, Commit, Repository
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.errors import InvalidValue, Problem, refuse

_NEIGHBOURS = 12
_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedCommit:
    """One end of a search: its name, its commit, and the version that it claims."""

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


def named(
    repository: Repository, sources: PackageSources, revision: str, option: str
) -> TaggedCommit:
    """Return the end that an option names by a revision; raises RunnerError."""
    commit = repository.revision(revision, option)
    if repository.blob(commit, sources.init) is None:
        expected = f"a revision with {sources.init}"
        raise refuse(InvalidValue(option, revision, expected))
    return TaggedCommit(
        wanted="",
        revision=revision,
        commit=commit,
        claims=repository.claims(commit, sources),
    )


def released(repository: Repository, sources: PackageSources, version: str) -> TaggedCommit:
    """Return the tag that a version was released from; raises RunnerError where there is none.

    A development version names its commit itself: `5.24.0.dev0+g0123456789ab`.
    """
    commit = _COMMIT.fullmatch(Version(version).local or "")
    if commit:
        return named(repository, sources, commit[1], OPTION)
    names = repository.read("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").split()
    tags = {name: parsed for name in names if (parsed := _version(name)) is not None}
    for tag in _nearest(tags, Version(version)):
        sha = repository.resolve(f"refs/tags/{tag}")
        if sha and repository.claims(sha, sources) == str(Version(version)):
            return TaggedCommit(wanted=version, revision=tag, commit=sha, claims=version)
    what = f"no tag claims to be {sources.package} {version}"
    if tag := next((tag for tag in tags if tags[tag] == Version(version)), ""):
        sha = repository.resolve(f"refs/tags/{tag}") or ""
        what += f"; {tag} claims {repository.claims(sha, sources) or 'no version'}"
    fix = "Fetch the tags with `git fetch --tags`, or give --good and --bad."
    raise refuse(Problem(repository.where, what, fix))


def _version(tag: str) -> Version | None:
    try:
        return Version(tag)
    except ValueError:  # also for a number of 5,000 digits
        return None


def _nearest(tags: dict[str, Version], version: Version) -> Iterable[str]:
    """Return the tag of a version, then its neighbours in the order of versions."""
    ordered = sorted(tags, key=lambda tag: tags[tag])
    at = next((n for n, tag in enumerate(ordered) if tags[tag] >= version), len(ordered))
    return sorted(ordered, key=lambda tag: abs(ordered.index(tag) - at))[:_NEIGHBOURS]


_PICTURE = ("--no-color", "--no-ext-diff", "--no-textconv", "--full-index", "--binary")


@dataclass(frozen=True, kw_only=True, slots=True)
class Twin:
    """The same change as a commit of another line."""

    commit: Commit
    line: str
    by: str
    """How it is known."""


def twin(repository: Repository, commit: Commit, since: str, until: str, line: str) -> Twin | None:
    """Return the twin of a commit among those of `until` that `since` does not have.

    A revert is no twin, even where both subjects end with the same number.
    """
    others = [
        other
        for other in repository.commits(since, until)
        if other.sha != commit.sha and not (other.reverts(commit) or commit.reverts(other))
    ]
    picked = (other for other in others if other.picks(commit) or commit.picks(other))
    number = commit.pull_request
    numbered = (other for other in others if number and other.pull_request == number)
    if same := next(picked, None):
        return Twin(commit=same, line=line, by="cherry picked from commit")
    if same := next(numbered, None):
        return Twin(commit=same, line=line, by="the same pull request")
    if same := _alike(repository, commit, since, until):
        return Twin(commit=same, line=line, by="the same patch")
    return None


def _alike(repository: Repository, commit: Commit, since: str, until: str) -> Commit | None:
    """Return the commit that changes the same files in the same way, at any line."""
    changed = repository.ask("diff-tree", "-r", "--name-only", "--no-commit-id", "-z", commit.sha)
    paths = [path for path in (changed or "").split("\x00") if path]
    own = _patches(repository, ["show", "--format=commit %H", *_PICTURE, commit.sha])
    if not (paths and own):
        return None
    history = ["log", "-p", "--format=commit %H", "--full-diff", "--no-merges", *_PICTURE]
    # Literal, as a path may hold signs of a pattern; from the top, as the clone may be a folder.
    specs = [f":(top,literal){path}" for path in paths]
    theirs = _patches(repository, [*history, until, f"^{since}", "--", *specs])
    same = theirs.get(next(iter(own)))
    return repository.commit(same) if same and same != commit.sha else None


def _patches(repository: Repository, command: list[str]) -> dict[str, str]:
    """Return commits by what identifies their patch."""
    text = repository.ask(*command)
    listed = repository.ask("patch-id", "--stable", given=text) if text else ""
    return dict(line.split(" ", 1) for line in (listed or "").splitlines())


_MAIN = (
    *("refs/remotes/upstream/HEAD", "refs/remotes/origin/HEAD"),
    *("refs/remotes/upstream/main", "refs/remotes/origin/main", "refs/heads/main"),
    *("refs/remotes/upstream/master", "refs/remotes/origin/master", "refs/heads/master"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitLine:
    """Commits along first parents, oldest first; both ends are part of it."""

    name: str
    commits: tuple[str, ...]

    @property
    def first(self) -> str:
        """The older end."""
        return self.commits[0]

    @property
    def last(self) -> str:
        """The newer end."""
        return self.commits[-1]

    def place(self, commit: str) -> int:
        """Return where a commit stands; raises ValueError where it is not on the line."""
        return self.commits.index(commit)

    def before(self, commit: str) -> CommitLine:
        """Return the part that ends at a commit."""
        return CommitLine(name=self.name, commits=self.commits[: self.place(commit) + 1])

    def since(self, commit: str) -> CommitLine:
        """Return the part that begins at a commit."""
        return CommitLine(name=self.name, commits=self.commits[self.place(commit) :])

    def then(self, further: CommitLine) -> CommitLine:
        """Return the line that goes on along another, which begins where this one ends."""
        return CommitLine(name=further.name, commits=(*self.commits, *further.commits[1:]))

    @property
    def backwards(self) -> CommitLine:
        """The line from its end."""
        return CommitLine(name=self.name, commits=self.commits[::-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Routes:
    """Where two ends lie: `trunk` is between them, or between the points where they left it.

    A branch leads from there to an end that is not on the trunk; its first commit is on both.
    `main` is what the main branch is called, for a twin of what is found on a branch.
    """

    trunk: CommitLine
    older: CommitLine | None
    newer: CommitLine | None
    main: str


def between(repository: Repository, older: TaggedCommit, newer: TaggedCommit) -> Routes:
    """Return the lines between two ends; raises RunnerError where there is no way."""
    _refuse_reversed(repository, older, newer)
    main = _main(repository, older, newer)
    trunk = dict.fromkeys(repository.first_parents(main)) if main else {}
    of_newer = repository.first_parents(newer.commit)
    if older.commit in of_newer:
        name = short(main) if newer.commit in trunk else f"the branch of {newer.revision}"
        line = _line(name, of_newer, older.commit, newer.commit)
        return Routes(trunk=line, older=None, newer=None, main=main)
    left = _leaves(repository, older.commit, main, trunk)
    joined = _leaves(repository, newer.commit, main, trunk)
    places = list(trunk)  # newest first
    if not (left and joined) or places.index(joined) > places.index(left):
        of_older = dict.fromkeys(repository.first_parents(older.commit))
        left = joined = next((name for name in of_newer if name in of_older), "")
        if not joined:
            what = f"{older.revision} and {newer.revision} have no common history by first parents"
            raise refuse(Problem(repository.where, what, "Give --good and --bad on one branch."))
        trunk = dict.fromkeys(of_newer)
    return Routes(
        trunk=_line(short(main) or newer.revision, tuple(trunk), left, joined),
        older=_branch(repository, older, left),
        newer=_branch(repository, newer, joined),
        main=main,
    )


def _line(name: str, newest_first: tuple[str, ...], first: str, last: str) -> CommitLine:
    there = newest_first[newest_first.index(last) : newest_first.index(first) + 1]
    return CommitLine(name=name, commits=tuple(reversed(there)))


def _branch(repository: Repository, end: TaggedCommit, base: str) -> CommitLine | None:
    """Return the line from where a branch left the trunk to its end."""
    if end.commit == base:
        return None
    there = repository.first_parents(end.commit, until=base)
    return CommitLine(name=f"the branch of {end.revision}", commits=(base, *reversed(there)))


def holding(repository: Repository, line: CommitLine) -> CommitLine:
    """Return the part of a line that has its first commit in its past.

    A line may join its first commit by a merge only; what stands before that merge lacks it.
    """
    asked = ("rev-list", "--ancestry-path", line.last, f"^{line.first}")
    there = {line.first, *repository.read(*asked).split()}
    return CommitLine(name=line.name, commits=tuple(sha for sha in line.commits if sha in there))


def short(ref: str) -> str:
    """Return a ref as people write it."""
    return ref.removeprefix("refs/").removeprefix("heads/").removeprefix("remotes/")


def _main(repository: Repository, older: TaggedCommit, newer: TaggedCommit) -> str:
    """Return the main branch that is closest to both ends; empty where there is none.

    The others are out of date, or those of a fork.
    """
    there = [name for name in _MAIN if repository.resolve(name)]
    if not there:
        return ""

    def distance(main: str) -> int:
        counts = (
            repository.ask("rev-list", "--count", end.commit, f"^{main}") for end in (older, newer)
        )
        return sum(int(count or 0) for count in counts)

    return min(there, key=distance)


def _leaves(repository: Repository, commit: str, main: str, trunk: Mapping[str, None]) -> str:
    """Return where a commit's line leaves the main branch: their merge base, if it is on the line.

    Where a release branch was merged back, the merge base is the release itself, which is not.
    """
    if not main:
        return ""
    bases = (repository.ask("merge-base", "--all", commit, main) or "").split()
    places = {name: number for number, name in enumerate(trunk)}
    on_it = sorted((base for base in bases if base in places), key=lambda base: places[base])
    own = repository.first_parents(commit) if not on_it else ()
    return next(iter(on_it), "") or next((name for name in own if name in trunk), "")


def _refuse_reversed(repository: Repository, older: TaggedCommit, newer: TaggedCommit) -> None:
    """Refuse two ends that are one, or of which the later is given as the earlier."""
    if older.commit == newer.commit:
        what = f"{older.revision} and {newer.revision} are the same commit"
        raise refuse(Problem(repository.where, what))
    base = repository.ask("merge-base", older.commit, newer.commit)
    if not base:
        what = f"{older.revision} and {newer.revision} have no common history"
        raise refuse(Problem(repository.where, what))
    if base.strip() == newer.commit:
        what = f"{newer.revision} is an ancestor of {older.revision}"
        fix = "Without --fix, --good must be the older end; with --fix, --bad must be."
        raise refuse(Problem(repository.where, what, fix))
