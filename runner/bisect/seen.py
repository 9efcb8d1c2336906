"""The commit of main in which a failure was seen: it is tried first, and is a point then."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.commit_trials import CommitRuns, CommitTrial, Trial
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import Commit, opened
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import InvalidValue, refuse
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.cell import Environment, Source, belongs
from repromatrix.runner.model.environment_name import named_commit, of_commit
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import TRANSFORMERS

SEEN = "--seen"
ALLOWED = "a release such as 5.2.0, or main@HASH"
_HASH = re.compile(r"[0-9a-f]{7,64}")
_WORDS = {Answer.YES: "fails", Answer.NO: "passes", Answer.UNKNOWN: "could not be judged"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenCommit:
    """A commit of main, and the version that it claims."""

    clone: Clone
    commit: Commit
    claims: str

    @property
    def name(self) -> str:
        """How it is called among the releases: `main@0123456789ab`."""
        return of_commit(self.commit.sha)

    @property
    def text(self) -> str:
        """The same with what it claims and its day: `main@0123456789ab (5.16.0.dev0, …)`."""
        return f"{self.name} ({self.claims or 'no version'}, {self.commit.date[:10]})"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenPoint:
    """What a question was answered at the commit, which is a point among its releases."""

    question: CaseQuestion
    """Of a script that describes nothing, bad means the failure that it had there."""
    environment: Environment
    row: Observation

    def among(self, environments: Mapping[str, Environment]) -> dict[str, Environment]:
        """Return environments with the commit before the first release that is newer."""
        own = self.environment
        newer = [
            name
            for name, one in environments.items()
            if one.source is Source.RELEASE
            and belongs(self.question.case, one)
            and _version(one) > _version(own)
        ]
        placed = dict(environments)
        later = {name: placed.pop(name) for name in newer}
        return {**placed, own.name: own, **later}


def _version(environment: Environment) -> Version:
    return Version(environment.version(TRANSFORMERS))


def find_seen(clone: Clone, typed: str) -> SeenCommit:
    """Return the commit that `main@HASH` names; raises RunnerError where it is not in the clone."""
    revision = named_commit(typed)
    if not _HASH.fullmatch(revision):
        raise refuse(InvalidValue(SEEN, typed, ALLOWED))
    found = git_lines.named(clone.repository, clone.sources, revision, SEEN)
    commit = clone.repository.commit(found.commit)
    return SeenCommit(clone=clone, commit=commit, claims=found.claims)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenTrial:
    """What happened to a question at the commit; without a point it could not be judged."""

    trial: CommitTrial
    point: SeenPoint | None = None


def try_seen(
    home: Home,
    seen: SeenCommit,
    asked: Sequence[CaseQuestion],
    terms: Terms,
    *,
    rerun: bool = False,
) -> list[SeenTrial]:
    """Try the commit in the environment that it declares; return a trial per question.

    Raises RunnerError where it cannot be checked out or its environment cannot be built, and
    Interrupted; what was run is stored.
    """
    clone, sha = seen.clone, seen.commit.sha
    # A script that describes no failure is searched for whatever it does there.
    heard = [one if one.is_settled else dataclasses.replace(one, any_failure=True) for one in asked]
    with opened(home.paths.checkouts, clone.repository, clone.sources) as worktree:
        runs = CommitRuns(home=home, clone=clone, worktree=worktree, terms=terms, rerun=rerun)
        return [
            SeenTrial(trial=trial, point=_point(seen, runs, question, trial))
            for question, trial in zip(asked, runs(Trial(sha), heard), strict=True)
        ]


def _point(
    seen: SeenCommit, runs: CommitRuns, question: CaseQuestion, trial: CommitTrial
) -> SeenPoint | None:
    if trial.answer is Answer.UNKNOWN:
        return None
    environment, row = runs.judged(seen.commit.sha, question)
    return SeenPoint(
        question=question.recognising([row]),
        environment=dataclasses.replace(environment, name=seen.name),
        row=dataclasses.replace(row, cell=question.cell(seen.name)),
    )


def said(seen: SeenCommit, question: CaseQuestion, trial: CommitTrial) -> str:
    """Return a line: `toy_breaks bf16 fails at main@0123456789ab (…): ValueError: it breaks`."""
    what = f"{question.case.name} {question.precision} {_WORDS[trial.answer]} at {seen.text}"
    return what if trial.answer is Answer.NO else f"{what}: {trial.reason}"
