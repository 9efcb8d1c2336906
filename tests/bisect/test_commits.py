from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import factories
import pytest
from histories import History, fingerprint, sources
from laboratory import (
    BY_ENVIRONMENT,
    HERE,
    STATE,
    Laboratory,
    QuickTrials,
    laboratory,
    measure,
    straight,
)
from programs import PATIENCE, started, wait_until

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.commit_search import CommitSearch, search
from repromatrix.runner.bisect.commit_trials import CommitTrial
from repromatrix.runner.bisect.commits import CommitAnswer, CommitOutcome, Doubt, sentence
from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@pytest.mark.parametrize("at", [1, 171])
def test_over_256_commits_at_most_ten_are_tried(tmp_path: Path, at: int) -> None:
    lab = straight(tmp_path, ["works"] * at + ["breaks"] * (257 - at))

    answer = lab.search()

    assert lab.named(answer) == [str(at)]
    assert answer.searched is not None
    assert (answer.searched.count, answer.searched.name) == (256, "main")
    assert len(answer.trials) <= 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Searched:
    """A laboratory that was searched with whole trials, then again, then with `--rerun`."""

    lab: Laboratory
    first: CommitAnswer
    second: CommitAnswer
    rerun: CommitAnswer


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    states = ["works", "works", "breaks", "breaks"]
    folder = tmp_path_factory.mktemp("searched")
    lab = straight(folder, states, m2="Cache everything (#36001)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_trials, "measure", measure)
        first, second = lab.try_out(), lab.try_out()
        rerun = lab.try_out("another", rerun=True)
    return Searched(lab=lab, first=first, second=second, rerun=rerun)


def test_the_whole_answer_is_told(searched: Searched) -> None:
    lab, answer = searched.lab, searched.first

    assert (answer.ending, answer.ending.code) == (CommitOutcome.FOUND, ExitCode.AS_EXPECTED)
    assert answer.culprit is not None
    assert (answer.culprit.pull_request, answer.culprit.date) == (
        36001,
        "2025-03-04T01:00:00+01:00",
    )
    assert [answer.older.revision, answer.newer.revision] == ["v4.50.3", "v4.51.0"]
    assert lab.tried(answer) == [("3", "yes"), ("0", "no"), ("1", "no"), ("2", "yes")]
    assert (answer.ran, answer.known, answer.unjudged, answer.is_dirty) == (4, 0, (), False)
    trial = answer.trials[3]
    assert trial == CommitTrial(
        commit=lab.history.shas["2"],
        answer=Answer.YES,
        environment="4.50.3",
        digest=factories.environment("4.50.3").digest,
        reason="ValueError: it breaks",
        version=f"4.51.0.dev0+g{lab.history.shas['2'][:12]}",
        file="transformers/__init__.py",
    )


def test_a_heal_is_found_from_bad_to_good(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["breaks", "breaks", "works", "works"])

    answer = lab.search(lab.inquiry(Edge.FALL))

    assert lab.named(answer) == ["2"]


def test_what_was_tried_once_is_not_run_again(searched: Searched) -> None:
    lab, first, second = searched.lab, searched.first, searched.second

    assert (first.ran, second.ran, second.known) == (4, 0, 4)
    assert lab.tried(first) == lab.tried(second)
    assert lab.named(second) == ["2"]


def test_a_commit_that_fails_in_another_way_is_stepped_over(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "works", "works", "other", "works", "breaks", "breaks"])

    answer = lab.search()

    assert lab.named(answer) == ["5"]
    reasons = {(lab.history.name(one.commit), one.reason) for one in answer.unjudged}
    assert reasons == {("3", "other")}


def test_a_commit_that_cannot_be_judged_is_never_blamed(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "works", "unimportable", "breaks", "breaks"])

    answer = lab.search()

    assert (answer.ending, answer.ending.code) == (CommitOutcome.CANDIDATES, ExitCode.UNDECIDED)
    assert lab.named(answer) == ["2", "3"]
    assert answer.last_old
    assert answer.first_new
    ends = [lab.history.name(one.sha) for one in (answer.last_old, answer.first_new)]
    assert ends == ["1", "3"]
    assert [one.reason for one in answer.unjudged] == ["unimportable"]


def test_a_commit_is_not_blamed_for_what_the_environment_of_its_side_does(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["older/works"] * 4 + ["works only in the older"] * 5)

    answer = lab.search()

    assert (answer.ending, answer.candidates) == (CommitOutcome.ENVIRONMENT, ())
    assert answer.last_old
    assert answer.first_new
    assert [lab.history.name(one.sha) for one in (answer.last_old, answer.first_new)] == ["3", "4"]
    assert answer.environments(answer.first_new) == ("newer", "older")


def test_a_commit_that_declares_other_needs_is_blamed_for_what_they_do(tmp_path: Path) -> None:
    history = History()
    history.commit("0", {**sources("4.51.0.dev0", "older/works"), **needing("hub<1")})
    history.commit("1", {STATE: "works only in the older", **needing("hub>=1")})
    history.commit("2", {"number": "2"})
    lab = laboratory(tmp_path, history)

    answer = lab.search(lab.inquiry(good=history.shas["0"], bad="main"))

    assert (answer.ending, lab.named(answer)) == (CommitOutcome.FOUND, ["1"])


def needing(requirement: str) -> dict[str, str]:
    return {"setup.py": f'setup(install_requires=["{requirement}"])\n'}


def test_a_commit_that_the_environment_of_the_other_side_cannot_judge_is_a_candidate(
    tmp_path: Path,
) -> None:
    with_older = {"breaks only in the newer": {"newer": Answer.YES, "older": Answer.UNKNOWN}}
    lab = straight(tmp_path, ["older/works"] * 2 + ["breaks only in the newer"] * 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BY_ENVIRONMENT, *with_older.popitem())
        answer = lab.search()

    assert (answer.ending, answer.doubt) == (CommitOutcome.CANDIDATES, Doubt.ENVIRONMENTS)
    assert (lab.named(answer), answer.ending.code) == (["2"], ExitCode.UNDECIDED)


@pytest.mark.parametrize("state", ["works", "breaks"])
def test_where_releases_differ_and_their_sources_do_not_no_commit_is_blamed(
    tmp_path: Path, state: str
) -> None:
    answer = straight(tmp_path, [state] * 3).search()

    assert (answer.ending, answer.ending.code) == (CommitOutcome.ENVIRONMENT, ExitCode.UNDECIDED)
    assert answer.culprit is None
    assert "nox -s blame -- toy_breaks --precision bf16 --good 4.50.3 --bad 4.51.0" in sentence(
        answer
    )


@pytest.mark.parametrize(
    ("states", "ending", "code"),
    [
        (["works"] * 3, CommitOutcome.NEVER, 5),
        (["breaks"] * 3, CommitOutcome.ALWAYS, 6),
        (["breaks", "works", "works"], CommitOutcome.CONTRARY, 5),
        (["unimportable"] * 9, CommitOutcome.MUTE, 7),
    ],
)
def test_ends_that_do_not_differ_are_no_boundary(
    tmp_path: Path, states: list[str], ending: CommitOutcome, code: int
) -> None:
    lab = straight(tmp_path, states)
    first = f"main~{len(states) - 1}"

    answer = lab.search(lab.inquiry(good=first, bad="main"))

    assert (answer.ending, answer.ending.code, answer.candidates) == (ending, code, ())


def test_an_end_that_cannot_be_judged_is_replaced_by_its_neighbour(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["other", "works", "works", "breaks", "breaks", "other"])

    answer = lab.search()

    assert lab.named(answer) == ["3"]
    assert [lab.history.name(one.commit) for one in answer.unjudged] == ["5", "0"]


def test_a_newer_end_that_cannot_be_judged_is_not_said_to_be_bad(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works"] * 8 + ["other"])

    answer = lab.search(lab.inquiry(good="main~8", bad="main"))

    assert (answer.ending, answer.doubt) == (CommitOutcome.CANDIDATES, Doubt.NEWER_END)
    assert answer.last_old
    assert (lab.history.name(answer.last_old.sha), answer.first_new) == ("7", None)
    assert (lab.named(answer), answer.not_asked) == (["8"], ())


def test_an_older_end_that_cannot_be_judged_leaves_what_follows_it(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["other"] * 3 + ["breaks"] * 6)

    answer = lab.search()

    assert (answer.ending, answer.doubt) == (CommitOutcome.CANDIDATES, Doubt.OLDER_END)
    assert answer.first_new
    assert (answer.last_old, lab.history.name(answer.first_new.sha)) == (None, "3")
    assert (lab.named(answer), answer.not_asked) == (["1", "2", "3"], ())


def test_both_sides_are_run_once_more_and_counted_apart(searched: Searched) -> None:
    lab, answer, later = searched.lab, searched.first, searched.second

    again = [(lab.history.name(one.commit), one.answer, one.known) for one in answer.confirmations]
    assert again == [("1", "no", False), ("2", "yes", False)]
    assert all(one.again for one in answer.confirmations)
    assert [one.known for one in later.confirmations] == [True, True]
    assert len(answer.trials) == len(later.trials) == 4


def test_with_rerun_nothing_of_another_run_is_known(searched: Searched) -> None:
    lab, answer = searched.lab, searched.rerun

    assert (answer.ran, answer.known, lab.named(answer)) == (4, 0, ["2"])
    assert [one.known for one in answer.confirmations] == [False, False]


@pytest.mark.parametrize(
    ("states", "left", "sides"),
    [
        (["works", "works", "works", "breaks once", "breaks", "breaks"], ["3", "4", "5"], "25"),
        (["works", "works", "works once", "breaks", "breaks", "breaks"], ["1", "2", "3"], "03"),
    ],
)
def test_a_side_that_contradicts_itself_decides_nothing(
    tmp_path: Path, states: list[str], left: list[str], sides: str
) -> None:
    lab = straight(tmp_path, states)

    answer = lab.search()

    assert (answer.ending, answer.doubt) == (CommitOutcome.CANDIDATES, Doubt.CONTRADICTION)
    assert answer.last_old
    assert answer.first_new
    ends = [lab.history.name(one.sha) for one in (answer.last_old, answer.first_new)]
    assert (lab.named(answer), "".join(ends)) == (left, sides)
    opposite = "is (good and, run once more, bad|bad and, run once more, good)"
    assert len(re.findall(opposite, sentence(answer))) == 1


def test_an_end_that_contradicts_itself_leaves_the_search_undecided(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works once", "breaks"])

    answer = lab.search()

    assert (answer.ending, answer.doubt) == (CommitOutcome.MUTE, Doubt.CONTRADICTION)
    assert answer.candidates == ()


def feature(merged: str) -> History:
    """Write a line that breaks and is healed, and a branch of before the heal that merges it."""
    history = History()
    history.commit("G", sources("4.51.0.dev0", "works"))
    history.commit("F", {"src/transformers/state.txt": "breaks"})
    history.commit("H", {"src/transformers/state.txt": "works"})
    history.commit("f1", {"f": "1"}, branch="feature", on="F")
    for number in range(2, 7):
        history.commit(f"f{number}", {"f": str(number)}, branch="feature")
    files = {"src/transformers/state.txt": merged}
    history.commit("merge", files, branch="feature", merges="H")
    return history


def test_a_branch_into_which_main_was_merged_gets_no_innocent_commit_blamed(
    tmp_path: Path,
) -> None:
    history = feature("works")
    history.commit("f7", {"src/transformers/state.txt": "breaks"}, branch="feature")
    lab = laboratory(tmp_path, history)

    answer = lab.search(lab.inquiry(good="main", bad="feature"))

    assert (answer.ending, lab.named(answer)) == (CommitOutcome.FOUND, ["f7"])
    assert answer.last_old
    assert history.name(answer.last_old.sha) == "merge"


def test_a_merge_that_is_as_bad_as_its_own_parent_is_not_blamed(tmp_path: Path) -> None:
    history = feature("breaks")
    history.commit("f7", {"f": "7"}, branch="feature")
    lab = laboratory(tmp_path, history)

    answer = lab.search(lab.inquiry(good="main", bad="feature"))

    assert (answer.ending, answer.doubt) == (CommitOutcome.CANDIDATES, Doubt.PARENT)
    assert lab.named(answer) == ["merge"]


def test_the_first_commit_of_a_branch_is_found_before_main_was_merged(tmp_path: Path) -> None:
    history = History()
    history.commit("G", sources("4.51.0.dev0", "works"))
    history.commit("f1", {"src/transformers/state.txt": "breaks"}, branch="feature", on="G")
    history.commit("H", {"h": "h"})
    history.commit("merge", {}, branch="feature", merges="H")
    history.commit("f2", {"f": "2"}, branch="feature")
    lab = laboratory(tmp_path, history)

    answer = lab.search(lab.inquiry(good="main", bad="feature"))

    assert (answer.ending, lab.named(answer)) == (CommitOutcome.FOUND, ["f1"])
    assert answer.last_old
    assert history.name(answer.last_old.sha) == "G"


def branches() -> History:
    """Main and two release branches; what their commits do is added by the tests."""
    history = History()
    history.commit("a", sources("4.50.0.dev0", "works"))
    return history


def test_a_heal_that_was_cherry_picked_is_found_on_the_branch_of_the_release(
    tmp_path: Path,
) -> None:
    history = History()
    for name in "abc":
        history.commit(name, {**sources("4.51.0.dev0", "breaks"), name: name})
    history.commit("fix", sources("4.52.0.dev0", "works"), message="Heal it (#37044)")
    history.commit("old release", sources("4.50.3", "breaks"), branch="old", on="a")
    history.commit("bump", sources("4.51.0", "breaks"), branch="new", on="c")
    history.commit("pick", sources("4.51.0", "works"), branch="new", message="Heal it (#37044)")
    history.commit("notes", {"README": "4.51"}, branch="new")
    history.tag("v4.50.3", "old release")
    history.tag("v4.51.0", "notes")
    lab = laboratory(tmp_path, history)

    answer = lab.search(lab.inquiry(Edge.FALL))

    assert lab.named(answer) == ["pick"]
    assert answer.searched is not None
    assert answer.searched.name == "the branch of v4.51.0"


def test_a_heal_of_the_older_release_alone_is_found_on_its_branch(tmp_path: Path) -> None:
    history = History()
    history.commit("a", sources("4.50.0.dev0", "breaks"))
    history.commit("b", {"b": "b"})
    history.commit("bump", sources("4.50.3", "breaks"), branch="old", on="a")
    history.commit("revert", sources("4.50.3", "works"), branch="old")
    history.commit("new release", sources("4.51.0", "breaks"), branch="new", on="b")
    history.tag("v4.50.3", "revert")
    history.tag("v4.51.0", "new release")
    lab = laboratory(tmp_path, history)

    answer = lab.search()

    assert lab.named(answer) == ["revert"]
    assert answer.searched is not None
    assert (answer.searched.name, answer.searched_edge) == ("the branch of v4.50.3", Edge.FALL)


def test_a_revert_and_a_second_break_give_one_of_the_breaks(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks", "breaks", "works", "works", "breaks", "breaks"])

    answer = lab.search()

    assert lab.named(answer) in (["1"], ["5"])
    assert answer.last_old is not None
    place = int(lab.named(answer)[0])
    assert lab.history.name(answer.last_old.sha) == str(place - 1)


def test_revisions_take_the_place_of_tags(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks", "works", "works", "breaks", "breaks"])
    shas = lab.history.shas

    answer = lab.search(lab.inquiry(good=shas["2"][:10], bad="main"))

    assert lab.named(answer) == ["4"]
    assert answer.older.release == ""


def test_a_merged_branch_counts_as_one_commit(tmp_path: Path) -> None:
    history = branches()
    history.commit("x", {**sources("4.51.0.dev0", "breaks"), "x": "x"}, branch="feature", on="a")
    history.commit("y", {"y": "y"}, branch="feature")
    history.commit("b", {"b": "b"})
    history.commit("merge", sources("4.51.0.dev0", "breaks"), merges="y", message="Merge (#7)")
    history.commit("c", {"c": "c"})
    lab = laboratory(tmp_path, history)

    answer = lab.search(lab.inquiry(good=history.shas["a"], bad="main"))

    assert lab.named(answer) == ["merge"]


def test_many_commits_in_a_row_that_cannot_be_judged_end_a_search(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", *["other"] * 40, "breaks", "breaks"])

    answer = lab.search()

    assert (answer.ending, answer.doubt) == (CommitOutcome.CANDIDATES, Doubt.SILENCE)
    assert (len(answer.candidates), len(answer.unjudged), len(answer.not_asked)) == (42, 16, 25)
    first, last = lab.history.shas["1"][:12], lab.history.shas["42"][:12]
    assert sentence(answer).endswith(
        f"is broken by one of 42 commits, {first} to {last};"
        " 16 between them were tried and could not be judged (other)"
    )


@pytest.mark.usefixtures("store_below_root")
def test_the_clone_stays_as_it_was_and_nothing_stays_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_trials, "measure", measure)
    lab = straight(tmp_path, ["works", "works", "other", "breaks", "breaks"])
    (lab.clone / "number").write_text("mine")
    (lab.clone / "new").write_text("mine")
    before = fingerprint(lab.clone)

    answer = lab.try_out()

    assert answer.is_dirty
    assert fingerprint(lab.clone) == before
    kept = sorted(path.name for path in (tmp_path / "ours" / ".repromatrix").iterdir())
    assert kept == ["bisect", "trials-evidence.sqlite"]
    assert [path.name for path in (tmp_path / "ours/.repromatrix/bisect").iterdir()] == ["1.lock"]


def test_missing_tags_are_refused_before_anything_is_run(tmp_path: Path) -> None:
    history = branches()
    lab = laboratory(tmp_path, history)

    with pytest.raises(RunnerError, match=r"no tag claims to be transformers 4\.50\.3.*--tags"):
        lab.search()
    assert not (tmp_path / "ours").exists()


def test_a_clone_of_a_package_that_did_not_change_is_refused(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks"])
    older = factories.environment("4.51.0")
    same = lab.inquiry(older=older)
    without = dataclasses.replace(older, pins={"torch": older.pins["torch"]})

    with pytest.raises(RunnerError, match=r"4\.51\.0 in 4\.51\.0 and 4\.51\.0 in 4\.51\.0.*blame"):
        lab.search(same)
    with pytest.raises(RunnerError, match=r"not both have transformers \(missing in 4\.51\.0"):
        lab.search(dataclasses.replace(same, older=without))


def test_a_trial_that_goes_wrong_blames_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = straight(tmp_path, ["works", "works", "a state that raises KeyError", "breaks", "breaks"])
    monkeypatch.setattr(commit_trials, "measure", measure)

    with pytest.raises(KeyError, match="a state that raises"):
        lab.try_out()


def test_a_folder_may_have_a_space_in_its_name(tmp_path: Path) -> None:
    lab = straight(tmp_path / "a folder", ["works", "works", "breaks", "breaks"])

    assert lab.named(lab.search()) == ["2"]


def test_two_questions_share_the_commits_that_are_tried(tmp_path: Path) -> None:
    breaks = {Precision.BF16: 13, Precision.FP16: 29}
    states = [
        ", ".join(f"{one} {'breaks' if place >= at else 'works'}" for one, at in breaks.items())
        for place in range(41)
    ]
    lab = straight(tmp_path, states)
    clone = open_clone(lab.clone)
    trials = QuickTrials(clone)
    inquiries = [lab.inquiry(asked=lab.asked(precision=one)) for one in breaks]

    answers = search([CommitSearch(inquiry, clone) for inquiry in inquiries], trials)
    alone = [lab.search(inquiry) for inquiry in inquiries]

    assert [lab.named(answer) for answer in answers] == [["13"], ["29"]]
    assert len(trials.asked) < sum(len(one.trials) + len(one.confirmations) for one in alone)


SEARCHING = """
import signal, sys
from pathlib import Path
sys.path[:0] = {tests!r}
from laboratory import Laboratory, measure
from histories import History
from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.errors import Interrupted
def stop(*_): raise Interrupted
signal.signal(signal.SIGINT, stop)
commit_trials.measure = measure
lab = Laboratory(folder=Path({folder!r}), history=History())
try:
    lab.try_out()
except Interrupted:
    sys.exit(130)
"""


@contextlib.contextmanager
def searching(lab: Laboratory) -> Iterator[subprocess.Popen[str]]:
    """Start a search in a process of its own and wait until it tries the slow commit."""
    code = SEARCHING.format(tests=[str(HERE)], folder=str(lab.folder))
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    state = lab.folder / "ours/.repromatrix/bisect/1/tree" / STATE
    with started([sys.executable, "-c", code], env=environ) as process:
        wait_until(lambda: state.exists() and state.read_text() == "slow")
        time.sleep(1)
        yield process


def test_an_interrupted_search_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = straight(tmp_path, ["works", "works", "slow", "breaks", "breaks"])
    before = fingerprint(lab.clone)
    with searching(lab) as process:
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=PATIENCE) == 130
    assert [path.name for path in (tmp_path / "ours/.repromatrix/bisect").iterdir()] == ["1.lock"]
    assert fingerprint(lab.clone) == before
    again = hurried(lab, monkeypatch)
    assert (again.known, again.ran, lab.named(again)) == (2, 2, ["3"])


def hurried(lab: Laboratory, patch: pytest.MonkeyPatch) -> CommitAnswer:
    """Search again, with the slow commit as quick as the others."""
    (lab.folder / "quick").touch()
    patch.setattr(commit_trials, "measure", measure)
    return lab.try_out()
