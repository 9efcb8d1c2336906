"""Which commits lie between two ends: the main branch and release branches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from repromatrix.runner.bisect.repository import Repository
from repromatrix.runner.errors import Problem, refuse


class EndSource(StrEnum):
    """How the commit of an end is known."""

    TAG = "tag"
    REVISION = "revision"
    """It was named."""
    PLACE = "place"
    """From the file that says where releases were cut from main."""


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One end of a search: its name, its commit, and the version that it claims."""

    release: str
    """Empty where a revision was named instead."""
    revision: str
    """The tag, the revision as it was named, or the place on the main branch."""
    commit: str
    claims: str
    by: EndSource = EndSource.TAG
    note: str = ""
    """What stands for the release, where the clone does not have it."""
    environment: str = ""
    """The environment that belongs to it."""

    @property
    def agrees(self) -> bool:
        """Whether no tag of another version stands for the one that it claims."""
        return self.by is not EndSource.TAG or self.revision in {f"v{self.claims}", self.claims}


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
    def count(self) -> int:
        """How many commits follow the first."""
        return len(self.commits) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Routes:
    """Where two ends lie: `trunk` is between them, or between the points where they left it.

    A branch leads from there to an end that is not on the trunk; its first commit is on both.
    """

    trunk: CommitLine
    older: CommitLine | None
    newer: CommitLine | None


def between(repository: Repository, main: str, older: End, newer: End) -> Routes:
    """Return the lines between two ends; raises RunnerError where there is no way."""
    _refuse_reversed(repository, older, newer)
    trunk = repository.first_parents(main)
    of_newer = repository.first_parents(newer.commit)
    if older.commit in of_newer:
        name = short(main) if newer.commit in trunk else f"the branch of {newer.revision}"
        line = _line(name, of_newer, older.commit, newer.commit)
        return Routes(trunk=line, older=None, newer=None)
    left, joined = (_leaves(repository, end.commit, main, trunk) for end in (older, newer))
    if not (left and joined) or trunk.index(joined) > trunk.index(left):
        of_older = {*repository.first_parents(older.commit)}
        left = joined = next((sha for sha in of_newer if sha in of_older), "")
        if not joined:
            what = f"{older.revision} and {newer.revision} have no common history by first parents"
            raise refuse(Problem(repository.where, what, "Give --good and --bad on one branch."))
        trunk = of_newer
    return Routes(
        trunk=_line(short(main), trunk, left, joined),
        older=_branch(repository, older, left),
        newer=_branch(repository, newer, joined),
    )


def _line(name: str, newest_first: tuple[str, ...], first: str, last: str) -> CommitLine:
    part = newest_first[newest_first.index(last) : newest_first.index(first) + 1]
    return CommitLine(name=name, commits=part[::-1])


def _branch(repository: Repository, end: End, base: str) -> CommitLine | None:
    """Return the line from where a branch left the trunk to its end."""
    if end.commit == base:
        return None
    own = repository.first_parents(end.commit, until=base)
    return CommitLine(name=f"the branch of {end.revision}", commits=(base, *reversed(own)))


def _leaves(repository: Repository, commit: str, main: str, trunk: tuple[str, ...]) -> str:
    """Return where a commit's line leaves the main branch: their merge base, if it is on the line.

    Where a release branch was merged back, the merge base is the release itself, which is not.
    """
    bases = {*(repository.ask("merge-base", "--all", commit, main) or "").split()}
    if base := next((sha for sha in trunk if sha in bases), ""):
        return base
    on_main = {*trunk}
    return next((sha for sha in repository.first_parents(commit) if sha in on_main), "")


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


def _refuse_reversed(repository: Repository, older: End, newer: End) -> None:
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
