"""What a search over commits came to; nothing here knows how it is said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from repromatrix.runner.bisect.commit_trials import CommitTrial
from repromatrix.runner.bisect.git_lines import TaggedCommit, Twin
from repromatrix.runner.bisect.repository import Commit
from repromatrix.runner.bisect.search import Answer, Edge, agreed
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.cell import Cell


class CommitOutcome(StrEnum):
    """How a search over commits ends."""

    FOUND = "found"
    CANDIDATES = "candidates"
    """Only commits are left that could not be judged."""
    ENVIRONMENT = "environment"
    """The same commit answers differently in the two environments: not the commits decide."""
    NEVER = "never"
    """No end is bad."""
    ALWAYS = "always"
    """Both ends are bad."""
    CONTRARY = "contrary"
    """The older end is of the newer kind, and the newer one of the older."""
    MUTE = "mute"
    """An end could not be judged, nor its neighbours."""

    @property
    def code(self) -> ExitCode:
        """The exit code that says so."""
        match self:
            case CommitOutcome.FOUND:
                return ExitCode.AS_EXPECTED
            case CommitOutcome.NEVER | CommitOutcome.CONTRARY:
                return ExitCode.NOT_REPRODUCED
            case CommitOutcome.ALWAYS:
                return ExitCode.FAILS_ON_BOTH_SIDES
            case CommitOutcome.CANDIDATES | CommitOutcome.ENVIRONMENT | CommitOutcome.MUTE:
                return ExitCode.UNDECIDED


class Doubt(StrEnum):
    """Why a commit is not named although the search came to an end, or to one end of it."""

    NONE = ""
    OLDER_END = "older-end"
    """The older end could not be judged: all that was asked behind it is of the newer kind."""
    NEWER_END = "newer-end"
    """The newer end could not be judged: all that was asked before it is of the older kind."""
    ENVIRONMENTS = "environments"
    """The two sides were judged in two environments, and the newer cannot be in the older's."""
    CONTRADICTION = "contradiction"
    """A side answered otherwise when it was run once more."""
    PARENT = "parent"
    """The commit and the last of the older kind are not parent and child, and its own parent is
    not of the older kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One end as it was asked for: its commit, and the environment that belongs to it."""

    mark: TaggedCommit
    environment: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Searched:
    """The line that was searched: where it begins and ends, and how many commits follow its first.

    `edge` is what was looked for on it; on the branch of the older end it is the opposite.
    """

    name: str
    first: Commit
    last: Commit
    count: int
    edge: Edge


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitAnswer:
    """The commit that made the difference, or what is known instead."""

    ending: CommitOutcome
    cell: Cell
    """What was asked, in the newer end's environment."""
    edge: Edge
    package: str
    older: End
    newer: End
    searched: Searched | None = None
    last_old: Commit | None = None
    first_new: Commit | None = None
    candidates: tuple[Commit, ...] = ()
    """Oldest first; one where the commit was found."""
    twin: Twin | None = None
    doubt: Doubt = Doubt.NONE
    trials: tuple[CommitTrial, ...] = ()
    confirmations: tuple[CommitTrial, ...] = ()
    """Both sides of what was found, run once more."""
    is_dirty: bool = False
    """Whether the repository holds changes that are not committed: they were not looked at."""

    @property
    def culprit(self) -> Commit | None:
        """The commit that made the difference, if it was found."""
        return self.candidates[0] if self.ending is CommitOutcome.FOUND else None

    @property
    def code(self) -> ExitCode:
        """The exit code of the command."""
        return self.ending.code

    @property
    def known(self) -> int:
        """How many of the trials had been run before."""
        return sum(trial.known for trial in self.trials)

    @property
    def ran(self) -> int:
        """How many trials were run for this answer."""
        return len(self.trials) - self.known

    def environments(self, commit: Commit) -> tuple[str, ...]:
        """Return in whose environments a commit was tried, in their order."""
        return tuple(one.environment for one in self.trials if one.commit == commit.sha)

    @property
    def apart(self) -> bool:
        """Whether the two sides answered in two environments."""
        if self.last_old is None or self.first_new is None:
            return False
        old, new = self.environments(self.last_old)[:1], self.environments(self.first_new)[:1]
        return bool(old and new) and old != new

    @property
    def not_asked(self) -> tuple[Commit, ...]:
        """The candidates that were not asked."""
        asked = {one.commit for one in self.trials}
        return tuple(one for one in self.candidates if one.sha not in asked)

    @property
    def contradictions(self) -> tuple[tuple[CommitTrial, CommitTrial], ...]:
        """What a commit answered, and the opposite that it answered when it was run once more."""
        first = {one.commit: one for one in reversed(self.trials)}
        pairs = tuple((first[one.commit], one) for one in self.confirmations)
        return tuple(
            (before, after)
            for before, after in pairs
            if agreed({before.commit: before.answer}, after.commit, after.answer) is Answer.UNKNOWN
        )

    @property
    def unjudged(self) -> tuple[CommitTrial, ...]:
        """The commits that could not be judged, with the reason."""
        return tuple(one for one in self.trials if one.answer is Answer.UNKNOWN)
