"""Which commits are searched between two releases.

Release tags sit on branches of their own, with cherry-picks. What happened between two of them is
on the first-parent line of the main branch between the points where the branches leave it; what
was cherry-picked, or reverted for a release alone, is on the branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import Fault, refuse
from runner.history.repository import OPTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.history.repository import Repository
    from runner.history.tags import Mark

_MAIN = (
    *("refs/remotes/upstream/HEAD", "refs/remotes/origin/HEAD"),
    *("refs/remotes/upstream/main", "refs/remotes/origin/main", "refs/heads/main"),
    *("refs/remotes/upstream/master", "refs/remotes/origin/master", "refs/heads/master"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
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

    def before(self, commit: str) -> Line:
        """Return the part that ends at a commit."""
        return Line(name=self.name, commits=self.commits[: self.place(commit) + 1])

    def since(self, commit: str) -> Line:
        """Return the part that begins at a commit."""
        return Line(name=self.name, commits=self.commits[self.place(commit) :])

    def then(self, further: Line) -> Line:
        """Return the line that goes on along another, which begins where this one ends."""
        return Line(name=further.name, commits=(*self.commits, *further.commits[1:]))

    @property
    def backwards(self) -> Line:
        """The line from its end."""
        return Line(name=self.name, commits=self.commits[::-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Routes:
    """Where two ends lie: `trunk` is between them, or between the points where they left it.

    A branch leads from there to an end that is not on the trunk; its first commit is on both.
    `main` is what the main branch is called, for a twin of what is found on a branch.
    """

    trunk: Line
    older: Line | None
    newer: Line | None
    main: str


def between(repository: Repository, older: Mark, newer: Mark) -> Routes:
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
    if not (left and joined) or _is_before(trunk, joined, left):
        left = joined = _fork(repository, older, newer)
        trunk = dict.fromkeys(of_newer)
    return Routes(
        trunk=_line(short(main) or newer.revision, tuple(trunk), left, joined),
        older=_branch(repository, older, left),
        newer=_branch(repository, newer, joined),
        main=main,
    )


def _line(name: str, newest_first: tuple[str, ...], first: str, last: str) -> Line:
    there = newest_first[newest_first.index(last) : newest_first.index(first) + 1]
    return Line(name=name, commits=tuple(reversed(there)))


def _branch(repository: Repository, end: Mark, base: str) -> Line | None:
    """Return the line from where a branch left the trunk to its end."""
    if end.commit == base:
        return None
    there = repository.first_parents(end.commit, until=base)
    return Line(name=f"the branch of {end.revision}", commits=(base, *reversed(there)))


def holding(repository: Repository, line: Line) -> Line:
    """Return the part of a line that has its first commit in its past.

    A line may join its first commit by a merge only; what stands before that merge lacks it.
    """
    asked = ("rev-list", "--ancestry-path", line.last, f"^{line.first}")
    there = {line.first, *repository.read(*asked).split()}
    return Line(name=line.name, commits=tuple(one for one in line.commits if one in there))


def short(ref: str) -> str:
    """Return a ref as people write it."""
    return ref.removeprefix("refs/").removeprefix("heads/").removeprefix("remotes/")


def _main(repository: Repository, older: Mark, newer: Mark) -> str:
    """Return the main branch that comes closest to both ends: the others are behind, or a fork's.

    It is empty where there is none.
    """
    there = [name for name in _MAIN if repository.resolve(name)]
    if not there:
        return ""
    return min(there, key=lambda name: sum(_distance(repository, name, (older, newer))))


def _distance(repository: Repository, main: str, ends: tuple[Mark, ...]) -> Iterator[int]:
    for end in ends:
        count = repository.ask("rev-list", "--count", end.commit, f"^{main}")
        yield int(count or 0)


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


def _is_before(trunk: Mapping[str, None], one: str, other: str) -> bool:
    places = {name: number for number, name in enumerate(trunk)}
    return places[one] > places[other]


def _fork(repository: Repository, older: Mark, newer: Mark) -> str:
    """Return where the newer end's own line leaves the older one's; raises RunnerError."""
    of_newer = repository.first_parents(newer.commit)
    of_older = dict.fromkeys(repository.first_parents(older.commit))
    found = next((name for name in of_newer if name in of_older), "")
    if found:
        return found
    raise refuse(
        Fault(
            where=f"{OPTION} {repository.folder}",
            found=f"no common history of {older.revision} and {newer.revision} by first parents",
            allowed="two ends that one line of commits leads to",
            remedy="Name --good and --bad on one branch.",
        )
    )


def _refuse_reversed(repository: Repository, older: Mark, newer: Mark) -> None:
    """Refuse two ends that are one, or of which the later is given as the earlier."""
    where = f"{OPTION} {repository.folder}"
    if older.commit == newer.commit:
        found = f"{older.revision} and {newer.revision}, which are the same commit"
        raise refuse(Fault(where=where, found=found, allowed="two commits"))
    base = repository.ask("merge-base", older.commit, newer.commit)
    if not base:
        found = f"no common history of {older.revision} and {newer.revision}"
        raise refuse(Fault(where=where, found=found, allowed="two ends of one history"))
    if base.strip() == newer.commit:
        found = f"{newer.revision}, which is an ancestor of {older.revision}"
        remedy = (
            "What broke is searched from good to bad; with --fix, what healed from bad to good."
        )
        allowed = f"a commit that is not before {older.revision}"
        raise refuse(Fault(where=where, found=found, allowed=allowed, remedy=remedy))
