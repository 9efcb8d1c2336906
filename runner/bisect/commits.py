"""The result of a search over commits."""

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
    """The same commit answers differently in the two environments: no commit decides."""
    NEVER = "never"
    """No end is bad."""
    ALWAYS = "always"
    """Both ends are bad."""
    CONTRARY = "contrary"
    """The older end answers as the newer one should, and the other way round."""
    MUTE = "mute"
    """Neither an end nor its neighbours could be judged."""

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
    """Why a search names no commit although it came to its end."""

    NONE = ""
    OLDER_END = "older-end"
    """The older end could not be judged; all that was tried after it is like the newer end."""
    NEWER_END = "newer-end"
    """The newer end could not be judged; all that was tried before it is like the older end."""
    ENVIRONMENTS = "environments"
    """The two sides were judged in two environments, and the newer not in that of the older."""
    CONTRADICTION = "contradiction"
    """A side answered differently when it was run once more."""
    PARENT = "parent"
    """The commit is no child of the last one like the older end, and its own parent is not like
    that end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One end as it was asked for: its commit, and the environment that belongs to it."""

    mark: TaggedCommit
    environment: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Searched:
    """The line that was searched: its ends, and how many commits follow its first.

    `edge` is the change that was searched on it; on the branch of the older end, the opposite.
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
        return tuple(trial.environment for trial in self.trials if trial.commit == commit.sha)

    @property
    def apart(self) -> bool:
        """Whether the two sides answered in two environments."""
        if self.last_old is None or self.first_new is None:
            return False
        old, new = self.environments(self.last_old)[:1], self.environments(self.first_new)[:1]
        return bool(old and new) and old != new

    @property
    def not_asked(self) -> tuple[Commit, ...]:
        """The candidates that were not tried."""
        tried = {trial.commit for trial in self.trials}
        return tuple(commit for commit in self.candidates if commit.sha not in tried)

    @property
    def contradictions(self) -> tuple[tuple[CommitTrial, CommitTrial], ...]:
        """The trials of commits that answered the opposite when they were run once more."""
        firsts = {trial.commit: trial for trial in reversed(self.trials)}
        return tuple(
            (first, second)
            for second in self.confirmations
            for first in (firsts[second.commit],)
            if agreed({first.commit: first.answer}, first.commit, second.answer) is Answer.UNKNOWN
        )

    @property
    def unjudged(self) -> tuple[CommitTrial, ...]:
        """The commits that could not be judged, with the reason."""
        return tuple(trial for trial in self.trials if trial.answer is Answer.UNKNOWN)
