"""Which commits lie between two releases: tags, branch lines, and cherry-picks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from packaging.version import Version

from repromatrix.runner.bisect.repository import (
    OPTION,
    SHORT,
    Commit,
    Repository,
    claimed_or_nothing,
)
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.errors import InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.evidence.commits import ENDS, LACKS
from repromatrix.runner.text import join

_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


class EndSource(StrEnum):
    """How the commit of an end is known."""

    TAG = "tag"
    REVISION = "revision"
    """It was named."""
    DECLARED = "declared"
    """From the versions that the commits of the main line declare."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedCommit:
    """One end of a search: its name, its commit, and the version that it claims."""

    wanted: str
    """The version of the release; empty where a revision was named instead."""
    revision: str
    """The tag, the revision as it was named, or the place on the main line."""
    commit: str
    claims: str
    by: EndSource = EndSource.TAG
    note: str = ""
    """How the end was derived; empty where a tag or a revision says it."""
    earliest: str = ""
    """Of an end that was derived, the first commit at which the release can lie."""

    @property
    def agrees(self) -> bool:
        """Whether no tag of another version stands for the one that it claims."""
        return self.by is not EndSource.TAG or self.revision in {f"v{self.claims}", self.claims}


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
        by=EndSource.REVISION,
    )


def commit_of(version: str) -> str:
    """Return the commit that a development version names; empty where it names none."""
    found = _COMMIT.fullmatch(Version(version).local or "")
    return found[1] if found else ""


Points = Mapping[str, TaggedCommit]
"""The releases whose commit a clone tells (`release_points`), by version."""


def released(
    repository: Repository, sources: PackageSources, version: str, points: Points
) -> TaggedCommit:
    """Return where a version was released; raises RunnerError where the clone does not tell.

    A development version names its commit itself: `5.24.0.dev0+g0123456789ab`.
    """
    if commit := commit_of(version):
        return named(repository, sources, commit, OPTION)
    point = points.get(str(Version(version)))
    if point is None:
        raise _out_of_reach(repository, sources, version, points)
    return point


def released_ends(
    repository: Repository, sources: PackageSources, older: str, newer: str, points: Points
) -> tuple[TaggedCommit, TaggedCommit]:
    """Return the ends between two versions; raises RunnerError where the clone does not tell.

    A patch release of a branch that the clone lacks gives way to the nearest release outside the
    two that the clone has: from 4.50.3 to 4.51.0, the older end is where the 4.50 branch left
    main. Two releases of one such branch are refused: what was picked to it is not always what
    made the difference on main. The newest commit stands for a release of the version that it
    develops.
    """
    versions = Version(older), Version(newer)
    one_branch = versions[0].release[:2] == versions[1].release[:2]
    ends = []
    for text, version in zip((older, newer), versions, strict=True):
        if str(version) in points or version.local:
            ends.append(released(repository, sources, text, points))
            continue
        below, above = _around(points, version)
        nearest = below if version == versions[0] else above
        if nearest is None and version != versions[0]:
            nearest = _tip(repository, sources, older)
        if nearest is None or one_branch:
            raise _out_of_reach(repository, sources, text, points)
        stands = nearest.wanted or f"its newest commit, {nearest.commit[:SHORT]},"
        note = f"{text} is not in the clone; {stands} stands for it"
        note = "; ".join(filter(None, (note, nearest.note)))
        ends.append(dataclasses.replace(nearest, wanted=text, note=note))
    return ends[0], ends[1]


def _tip(repository: Repository, sources: PackageSources, older: str) -> TaggedCommit | None:
    """Return the newest commit of main; None where it was left behind by the older release."""
    main = newest_main(repository)
    sha = repository.resolve(main)
    claims = repository.claims(sha, sources) if sha else ""
    if not sha or not claims or Version(older) >= Version(claims):
        return None
    return TaggedCommit(
        wanted="", revision=short(main), commit=sha, claims=claims, by=EndSource.DECLARED
    )


def _around(
    points: Mapping[str, TaggedCommit], version: Version
) -> tuple[TaggedCommit | None, TaggedCommit | None]:
    """Return the nearest releases below and above a version; `points` are in order."""
    below = [point for name, point in points.items() if Version(name) < version]
    above = [point for name, point in points.items() if Version(name) > version]
    return (below[-1] if below else None), (above[0] if above else None)


def _out_of_reach(
    repository: Repository,
    sources: PackageSources,
    version: str,
    points: Points,
) -> RunnerError:
    """Say why a clone does not tell where a version is, and where its neighbours are."""
    what = f"no tag claims to be {sources.package} {version}"
    for tag in (f"v{version}", version):
        if sha := repository.resolve(f"refs/tags/{tag}"):
            what += f"; {tag} claims {repository.claims(sha, sources) or 'no version'}"
    below, above = _around(points, Version(version))
    if Version(version).micro:
        what += f"; a patch release lies on a branch, and {LACKS}"
    elif above is None:
        what += f"; {ENDS}"
    else:
        what += "; no commit of the main branch opens the version after it"
    sides = [f"{end.wanted} is at {end.commit[:SHORT]}" for end in (below, above) if end]
    near = f" ({join(sides)})" if sides else ""
    fix = f"Fetch the tags with `git fetch --tags`, or give --good and --bad{near}."
    return refuse(Problem(repository.where, what, fix))


def release_points(repository: Repository, sources: PackageSources) -> Points:
    """Return every release whose commit a clone tells, in the order of versions.

    A tag says it where one claims the version. Otherwise the versions that the commits of the
    main branch declare say it, along first parents: 4.56.0 is taken to be the last commit before
    the one that opens 4.57.0.dev0, and 5.0.0 the last before 5.0.1.dev0. A version that main
    declares itself, as peft does for 0.18.0, is the first commit that does so.

    Where a bump was forgotten, a release is late by as long, as transformers 5.3.0 is. `earliest`
    bounds that.

    Patch releases lie on branches, and where main skips a version (5.8.0.dev0 is followed by
    5.10.0.dev0) a release has no place of its own: both are missing.
    """
    main = newest_main(repository)
    points = {**_declared_points(repository, sources, main), **_tagged(repository, sources)}
    return {version: points[version] for version in sorted(points, key=Version)}


def newest_main(repository: Repository) -> str:
    """Return the main branch whose last commit is the newest; `HEAD` where there is none."""
    listed = repository.read("for-each-ref", "--format=%(committerdate:unix) %(refname)", *_MAIN)
    dates = {name: int(date) for date, name in map(str.split, listed.splitlines())}
    return max((name for name in _MAIN if name in dates), key=dates.__getitem__, default="HEAD")


def _tagged(repository: Repository, sources: PackageSources) -> dict[str, TaggedCommit]:
    """Return the tags by the version that they claim, the one of that name where several do."""
    peeled = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)"
    listed = repository.read("for-each-ref", f"--format={peeled} %(refname:strip=2)", "refs/tags")
    commits = {tag: sha for sha, tag in map(str.split, listed.splitlines()) if _version(tag)}
    claims = _claims(repository, sources, [*commits.values()])
    points: dict[str, TaggedCommit] = {}
    for tag, sha in commits.items():
        claimed = claims.get(sha, "")
        own = Version(tag) == _version(claimed)
        if own or (claimed and claimed not in points and not Version(claimed).is_devrelease):
            points[claimed] = TaggedCommit(wanted=claimed, revision=tag, commit=sha, claims=claimed)
    return points


def _version(tag: str) -> Version | None:
    try:
        return Version(tag)
    except ValueError:  # also for a number of 5,000 digits
        return None


def _declared_points(
    repository: Repository, sources: PackageSources, main: str
) -> dict[str, TaggedCommit]:
    """Return the releases that the versions along the main branch place."""
    log = ("log", "--first-parent", "--reverse", "--format=%H %P", main)
    listed = repository.ask(*log, "--", f":(top,literal){sources.init}") or ""
    changed = [line.split() for line in listed.splitlines()]
    claims = _claims(repository, sources, [sha for sha, *_ in changed])
    points: dict[str, TaggedCommit] = {}
    before, since = "", ""
    for sha, *parents in changed:
        opens = claims.get(sha, before)
        if opens == before:
            continue
        version = _closed(before, opens, merges=len(parents) > 1)
        where = f"{short(main)} before {opens}"
        if not Version(opens).is_devrelease:
            version, where = opens, f"{short(main)} at {opens}"
        if version:
            points[version] = TaggedCommit(
                wanted=version,
                revision=where,
                commit=sha if version == opens else parents[0],
                claims=opens if version == opens else before,
                by=EndSource.DECLARED,
                note=f"{version} has no tag: {sha[:SHORT]} is the first to declare {opens}",
                earliest=since,
            )
        before, since = opens, sha
    return points


def _closed(before: str, opens: str, *, merges: bool) -> str:
    """Return the release that lies before a development version; empty where it is unknown.

    `before` is what was declared until then. A merge that brings several versions at once, as
    into the main branch of a fork, says nothing of those between.
    """
    if not before:
        return ""
    old, new = Version(before), Version(opens)
    match new.minor, new.micro:
        case _, 1:
            closed = f"{new.major}.{new.minor}.0"
        case 0, 0:
            closed = f"{old.major}.{old.minor}.0"
        case minor, 0:
            closed = f"{new.major}.{minor - 1}.0"
        case _:
            return ""
    if merges and Version(closed).release[:2] != old.release[:2]:
        return ""
    return closed if old < Version(closed) < new else ""


def _claims(
    repository: Repository, sources: PackageSources, commits: Sequence[str]
) -> dict[str, str]:
    """Return the versions that a package claims at commits; one that claims none is left out.

    `git grep` prints one line of each file: a thousand files of 200 kB would take seconds to read.
    """
    if not commits:
        return {}
    looks = ("--null", "--full-name", "--text", "--no-color", "--no-line-number", "--no-column")
    where = ("--", f":(top,literal){sources.init}")
    printed = repository.ask("grep", *looks, "-G", "-e", "^__version__", *commits, *where) or ""
    claims: dict[str, str] = {}
    for line in printed.split("\n"):
        place, _, assigned = line.partition("\x00")
        if claimed := claimed_or_nothing(assigned):
            claims.setdefault(place.partition(":")[0], claimed)
    return claims


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
