"""What cases do along the main branch: points are chosen, and measured from coarse to fine."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.commit_trials import CommitRuns, CommitTrial, Trial
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.evidence.history import HistoryAnswer, HistoryKey, HistoryPoint, MainHistory
from repromatrix.runner.planning.plan import coarse_to_fine

MOST = 200
"""How many points are measured at most: an environment and an import each."""
EVERY = re.compile(r"([1-9]\d{0,5})(w?)")
"""A number of commits, or of weeks."""


def main_line(clone: Clone, since: str) -> list[HistoryPoint]:
    """Return the commits of the main branch from a release on, oldest first.

    Raises RunnerError where the clone does not tell where the release is.
    """
    repository, form = clone.repository, "--format=%ct %H"
    base = repository.read("merge-base", clone.released(since).commit, clone.main).strip()
    later = repository.read("log", "--first-parent", "--reverse", form, clone.main, f"^{base}")
    listed = [*repository.read("log", "-1", form, base).splitlines(), *later.splitlines()]
    return [
        HistoryPoint(date=_utc(int(seconds)), commit=commit, version="")
        for seconds, commit in map(str.split, listed)
    ]


def _utc(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def every(line: Sequence[HistoryPoint], step: str, option: str) -> list[HistoryPoint]:
    """Return every n-th commit, or the last one of every n weeks (`2w`), and both ends.

    Raises RunnerError for a step in another form, and for more points than are measured.
    """
    found = EVERY.fullmatch(step)
    if found is None:
        expected = "a number of commits, such as 200, or of weeks, such as 2w"
        raise refuse(InvalidValue(option, step, expected))
    size = int(found[1])
    if found[2]:
        first = dt.datetime.fromisoformat(line[0].date)
        weeks = [(dt.datetime.fromisoformat(point.date) - first).days // 7 for point in line]
        numbered = groupby(zip(weeks, line, strict=True), lambda pair: pair[0] // size)
        chosen = [line[0], *([*members][-1][1] for _, members in numbered)]
    else:
        chosen = [*line[::size], line[-1]]
    chosen = [*dict.fromkeys(chosen)]
    if len(chosen) > MOST:
        what = f"{step} gives {len(chosen)} points of {len(line)} commits"
        raise refuse(Problem(option, what, f"Choose a larger step: at most {MOST} are measured."))
    return chosen


def cell_of(question: CaseQuestion) -> HistoryKey:
    """Return the cell of each point that a question is about."""
    case = question.case
    return HistoryKey(case.name, case.digest, question.precision, question.device)


def measured(
    runs: CommitRuns, points: Sequence[HistoryPoint], asked: Sequence[CaseQuestion]
) -> Iterator[MainHistory]:
    """Ask every point, from coarse to fine, and yield what each answers as it is measured.

    Raises RunnerError and Interrupted.
    """
    clone = runs.clone
    for point in coarse_to_fine(points):
        version = clone.repository.claims(point.commit, clone.sources)
        trials = runs(Trial(point.commit), asked)
        answers = {
            cell_of(question): {point.commit: _answer(trial)}
            for question, trial in zip(asked, trials, strict=True)
        }
        yield MainHistory(points=(point._replace(version=version),), answers=answers)


def _answer(trial: CommitTrial) -> HistoryAnswer:
    fails = {Answer.YES: True, Answer.NO: False}.get(trial.answer)
    return HistoryAnswer(fails=fails, reason="passes" if fails is False else trial.reason)
