"""The commits that made a difference, as they are kept and published: `commits.csv`.

One row per change along releases: the commit that broke or fixed a case, or why none is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from repromatrix.runner import files
from repromatrix.runner.evidence.published import WRITTEN
from repromatrix.runner.evidence.tables import as_csv, read_rows
from repromatrix.runner.judging.ranges import Axis, Range
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.paths import Paths

NAME = "commits.csv"
OWNER = "huggingface"
REPOSITORIES = f"https://github.com/{OWNER}"
"""Where the packages under test are developed."""


LACKS = "the clone lacks it"
ENDS = "the main branch of the clone ends before it"
APART = "not all in the clone"
"""Why a change lies beyond a clone, as a reason says it."""


class ChangeKey(NamedTuple):
    """Which change of which case: between two environments, in one precision."""

    case: str
    workaround: str
    precision: str
    device: str
    change: str
    """`break` or `fix`."""
    before: str
    """The last environment before the change."""
    at: str
    """The first environment after it."""


class PinnedCommit(NamedTuple):
    """What a search over commits found out about a change; all text, as in the file.

    `commit` is empty where none is named, and `reason` says why.
    """

    case: str
    workaround: str
    precision: str
    device: str
    change: str
    before: str
    at: str
    package: str
    commit: str = ""
    parent: str = ""
    date: str = ""
    """The day of the commit, as its author wrote it."""
    title: str = ""
    pull_request: str = ""
    outcome_before: str = ""
    """What the parent did: `passes`, or the error."""
    outcome_at: str = ""
    unjudged: str = ""
    """How many commits between the two could not be judged."""
    environment_before: str = ""
    """The environment in which the parent ran, and its digest."""
    environment_at: str = ""
    reason: str = ""

    @property
    def key(self) -> ChangeKey:
        """The change that it is about."""
        return ChangeKey(*self[: len(ChangeKey._fields)])

    @property
    def is_beyond(self) -> bool:
        """Whether no commit is named because the clone does not hold the releases."""
        return not self.commit and any(said in self.reason for said in (LACKS, ENDS, APART))

    @property
    def label(self) -> str:
        """Its hash, its day, its package and pull request, for a reader; empty without a commit."""
        pull = f"#{self.pull_request}" if self.pull_request else ""
        return f"{self.commit[:12]} ({self.date}, {self.package}{pull})" if self.commit else ""

    @property
    def repository(self) -> str:
        """Where its package is developed."""
        return f"{REPOSITORIES}/{self.package}"

    @property
    def commit_url(self) -> str:
        """Where the commit is read; empty without one."""
        return f"{self.repository}/commit/{self.commit}" if self.commit else ""

    @property
    def url(self) -> str:
        """Where the pull request is read, or the commit where it names none; empty without one."""
        if self.commit and self.pull_request:
            return f"{self.repository}/pull/{self.pull_request}"
        return self.commit_url


def read_commits(path: Path) -> dict[ChangeKey, PinnedCommit]:
    """Return the rows of a file by their change; raises RunnerError where it is damaged."""
    return {row.key: row for row in read_rows(path, PinnedCommit, WRITTEN)}


def published_commits(paths: Paths) -> dict[ChangeKey, PinnedCommit]:
    """Return what is published; raises RunnerError."""
    return read_commits(paths.published / NAME)


def known_commits(paths: Paths) -> dict[ChangeKey, PinnedCommit]:
    """Return what is published and what was found here since; raises RunnerError."""
    return {**published_commits(paths), **read_commits(paths.commits)}


def is_pinned(commits: Mapping[ChangeKey, PinnedCommit], key: ChangeKey) -> bool:
    """Say whether the commit of a change is known."""
    return key in commits and bool(commits[key].commit)


def ends(
    commits: Mapping[ChangeKey, PinnedCommit], cell: Cell, axis: Axis, failing: Range
) -> tuple[PinnedCommit | None, PinnedCommit | None]:
    """Return the commits that broke and fixed a range; None where none is known.

    `cell` is that of any environment of the axis.
    """
    at = dict(axis)

    def commit(change: str, before: str, after: str) -> PinnedCommit | None:
        if not (before and after):
            return None
        return commit_at(commits, cell._replace(environment=at[after]), change, at[before])

    first, last = failing.releases[0], failing.releases[-1]
    return commit("break", failing.after, first), commit("fix", last, failing.until)


def commit_at(
    commits: Mapping[ChangeKey, PinnedCommit], cell: Cell, change: str, before: str
) -> PinnedCommit | None:
    """Return the commit of a change by the cell after it and the environment before it.

    None where none is known.
    """
    variant = (cell.case, cell.workaround, cell.precision, cell.device)
    found = commits.get(ChangeKey(*variant, change, before, cell.environment))
    return found if found is not None and found.commit else None


def as_text(rows: Iterable[PinnedCommit]) -> str:
    """Return the text of the file; the same rows give the same bytes."""
    return as_csv(PinnedCommit._fields, sorted(rows))


def keep(paths: Paths, row: PinnedCommit) -> None:
    """Keep a row on this machine, in place of an earlier one about the same change."""
    rows = {**read_commits(paths.commits), row.key: row}
    paths.commits.parent.mkdir(parents=True, exist_ok=True)
    files.write(paths.commits, as_text(rows.values()))
