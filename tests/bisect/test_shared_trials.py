"""Many changes pinned at once, each to its commit, over a history that is made up."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import factories
from histories import History, sources

from repromatrix.runner.bisect.clone import Clone, open_clone
from repromatrix.runner.bisect.commit_search import CommitSearch, Inquiry, search
from repromatrix.runner.bisect.commit_trials import CommitTrial, Trial
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.model.outcomes import Device, Precision

SEED = 18
COMMITS = 40
"""Between two releases."""
CASES = (3, 1)
"""Cases that change between two releases."""
LIMIT = 0.6
"""The share of the trials that one search after another takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownChange:
    """A question about the commits between two releases, and the commit that answers it."""

    inquiry: Inquiry
    culprit: str


@dataclass(frozen=True, kw_only=True)
class KnownHistory:
    """A clone with releases, and what changes between them."""

    clone: Clone
    places: dict[str, int]
    """Where each commit stands on the main branch; a release is where its branch leaves it."""
    changes: tuple[KnownChange, ...]

    def trials(self, changes: Sequence[KnownChange]) -> tuple[int, int]:
        """Return how many commits a search of some changes tries, and how many are not found."""
        # A case may change twice: what a question asks is told by what it is, not what it is like.
        known = {id(change.inquiry.asked): change for change in changes}
        tried = 0

        def try_commit(trial: Trial, asked: Sequence[CaseQuestion]) -> list[CommitTrial]:
            nonlocal tried
            tried += 1
            return [self._says(trial, known[id(question)]) for question in asked]

        answers = search(
            [CommitSearch(change.inquiry, self.clone) for change in changes], try_commit
        )
        missed = sum(
            answer.culprit is None or answer.culprit.sha != change.culprit
            for answer, change in zip(answers, changes, strict=True)
        )
        return tried, missed

    def _says(self, trial: Trial, change: KnownChange) -> CommitTrial:
        is_bad = self._holds(trial.commit, change.culprit) is (change.inquiry.edge is Edge.RISE)
        return CommitTrial(
            commit=trial.commit,
            answer=Answer.YES if is_bad else Answer.NO,
            environment="",
            reason="",
            again=trial.again,
        )

    def _holds(self, commit: str, culprit: str) -> bool:
        """Say whether a commit has another in its past, or is that one."""
        return self.places[commit] >= self.places[culprit]


def test_changes_that_are_pinned_at_once_share_their_trials(tmp_path: Path) -> None:
    history = make_up(tmp_path / "clone", CASES, COMMITS)
    together, missed = history.trials(history.changes)
    alone = [history.trials([change]) for change in history.changes]

    assert missed == sum(number for _, number in alone) == 0
    assert 0 < together <= LIMIT * sum(tried for tried, _ in alone)


def make_up(folder: Path, cases: Sequence[int], commits: int) -> KnownHistory:
    """Write a history with a release after each stretch of commits, and changes in each."""
    history, last = History(), len(cases) * commits
    for number in range(last + 1):
        version = f"4.{50 + number // commits}.0.dev0"
        files = {**sources(version, str(number)), "number": str(number)}
        history.commit(str(number), files)
        if number % commits == 0:
            release = f"4.{50 + number // commits}.0"
            files = sources(release, str(number))
            history.commit(release, files, branch=f"v{release}", on=str(number))
            history.tag(f"v{release}", release)
    history.write(folder)
    releases = {f"4.{50 + place}.0": place * commits for place in range(len(cases) + 1)}
    places = {
        sha: releases[name] if name in releases else int(name) for name, sha in history.shas.items()
    }
    changes = tuple(_changes(cases, commits, history.shas))
    return KnownHistory(clone=open_clone(folder), places=places, changes=changes)


def _changes(cases: Sequence[int], commits: int, shas: Mapping[str, str]) -> Iterator[KnownChange]:
    """Yield a change for both half precisions of each case: most cases fail alike in both."""
    chance = random.Random(SEED)  # noqa: S311 - the same history each time
    for stretch, count in enumerate(cases):
        older, newer = (factories.environment(f"4.{50 + stretch + side}.0") for side in (0, 1))
        for number in range(count):
            case = factories.case(factories.BREAKS, name=f"toy_{stretch}_{number}")
            edge = chance.choice([*Edge])
            culprit = stretch * commits + chance.randint(1, commits)
            for precision in (Precision.BF16, Precision.FP16):
                asked = CaseQuestion(
                    case=case, workaround="", precision=precision, device=Device.CPU
                )
                inquiry = Inquiry(asked=asked, edge=edge, older=older, newer=newer)
                yield KnownChange(inquiry=inquiry, culprit=shas[str(culprit)])
