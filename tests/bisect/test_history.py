"""Points of the main branch: chosen, put in order, and measured."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import pytest
from histories import History, fingerprint, sources
from laboratory import LIMITS, STATE, FakeHome, laboratory, measure

from repromatrix.runner.bisect import commit_trials, history
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.commit_trials import CommitRuns
from repromatrix.runner.bisect.repository import opened
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.history import HistoryPoint, MainHistory
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path


def line(number: int) -> list[HistoryPoint]:
    """Return so many commits, one each day."""
    days = [f"2025-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00+00:00" for day in range(number)]
    return [HistoryPoint(day, f"{place:040}", "") for place, day in enumerate(days)]


@pytest.mark.parametrize(
    ("step", "places"),
    [("4", [0, 4, 8, 9]), ("3", [0, 3, 6, 9]), ("100", [0, 9]), ("1w", [0, 6, 9])],
)
def test_every_so_many_commits_or_weeks_are_chosen_and_both_ends(
    step: str, places: list[int]
) -> None:
    commits = line(10)

    assert history.every(commits, step, "--every") == [commits[place] for place in places]


@pytest.mark.parametrize("step", ["", "0", "-1", "w", "1.5", "2 weeks", "1" * 9, "٣"])
def test_a_step_in_another_form_is_refused(step: str) -> None:
    with pytest.raises(RunnerError, match=r"a number of commits, such as 200, or of weeks"):
        history.every(line(10), step, "--every")


def test_more_points_than_are_measured_are_refused_with_how_many_they_are() -> None:
    with pytest.raises(RunnerError, match=r"1 gives 250 points of 250 commits.*at most 200"):
        history.every(line(250), "1", "--every")


def test_the_main_branch_is_measured_from_a_release_on_and_the_clone_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_trials, "measure", measure)
    made = History()
    made.commit("before", sources("4.49.0.dev0", "breaks"))
    made.commit("opens", sources("4.50.0.dev0", "works"))
    for number, state in enumerate(["works", "other", "breaks"]):
        made.commit(str(number), {STATE: state, "number": str(number)})
    lab = laboratory(tmp_path, made)
    clone, before = open_clone(lab.clone), fingerprint(lab.clone)
    clone = dataclasses.replace(clone, places={"4.49": made.shas["before"]})
    points = history.main_line(clone, "4.49.0")
    home = FakeHome(Paths(root=tmp_path / "ours"))
    with opened(home.paths.checkouts, clone.repository, clone.sources) as worktree:
        terms = Terms(limits=LIMITS, device=Device.CPU, run="a test")
        runs = CommitRuns(home=home, clone=clone, worktree=worktree, terms=terms)  # type: ignore[arg-type]
        heard = [*history.measured(runs, points, [lab.asked()])]

    assert [made.name(point.commit) for point in points] == ["before", "opens", "0", "1", "2"]
    found = functools.reduce(MainHistory.merged, heard, MainHistory())
    assert [made.name(one.points[0].commit) for one in heard] == ["2", "before", "0", "opens", "1"]
    assert {point.version for point in found.points} == {"4.49.0.dev0", "4.50.0.dev0"}
    spans = found.of(lab.asked().case)[Precision.BF16]
    assert [(span.fails, span.reasons) for span in spans] == [
        (True, ("ValueError: it breaks",)),
        (False, ("passes",)),
        (None, ("fails differently (TypeError: something else)",)),
        (True, ("ValueError: it breaks",)),
    ]
    assert fingerprint(lab.clone) == before


def test_a_release_that_the_clone_does_not_tell_is_named(tmp_path: Path) -> None:
    made = History()
    made.commit("only", sources("4.50.0.dev0", "works"))
    lab = laboratory(tmp_path, made)

    with pytest.raises(RunnerError, match=r"no tag claims to be transformers 4\.49\.0"):
        history.main_line(open_clone(lab.clone), "4.49.0")
