"""Which commit decides where packages cannot be installed apart, and what is said of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import environment, seen
from laboratory import LIMITS, FakeHome, Laboratory, measure, straight

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.deciding_commits import DecidingCommits, Decision, undivided
from repromatrix.runner.bisect.packages import (
    Blame,
    BlameOutcome,
    MixtureTrial,
    difference,
    mixture_name,
    search,
)
from repromatrix.runner.bisect.render_packages import BlameReport, decided, document
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.document import write
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kept import Expected

    from repromatrix.runner.bisect.clone import Clone
    from repromatrix.runner.bisect.packages import Taken

HUB = "huggingface-hub"
OLD, NEW = (
    dataclasses.replace(environment(name), pins={"transformers": name, HUB: hub})
    for name, hub in (("4.50.3", "0.36.0"), ("4.51.0", "1.3.7"))
)
GROUP = ("transformers", HUB)
APART = "transformers and huggingface-hub cannot be installed apart"
KEY = ChangeKey("toy_breaks", "", "bf16", "cpu", "break", "4.50.3", "4.51.0")
DIGEST = environment("4.50.3").digest
FOUND = PinnedCommit(
    *KEY,
    package="transformers",
    commit="c" * 40,
    parent="b" * 40,
    date="2025-03-04",
    title="Cache it (#36001)",
    pull_request="36001",
    environment_before=f"4.50.3 {DIGEST}",
    environment_at=f"4.50.3 {DIGEST}",
)


def blamed(*, apart: bool = True, fix: bool = False) -> Blame:
    """Return a blame of transformers, which moves alone only where it is not held together."""
    ends = difference(NEW, OLD) if fix else difference(OLD, NEW)

    def ask(taken: Taken) -> MixtureTrial:
        name = mixture_name(ends, taken)
        if apart and len(taken) == 1:
            reason = "cannot be resolved: transformers depends on huggingface-hub"
            return MixtureTrial(taken=taken, name=name, reason=reason)
        is_bad = "transformers" in taken
        row = seen(Outcome.FAILS if is_bad else Outcome.PASSES)
        answer = Answer.YES if is_bad else Answer.NO
        return MixtureTrial(taken=taken, name=name, answer=answer, seen=row, environment=OLD)

    return search(ends, ask)


def deciding(
    lab: Laboratory, known: Mapping[ChangeKey, PinnedCommit], *clones: Clone
) -> DecidingCommits:
    return DecidingCommits(
        home=FakeHome(Paths(root=lab.folder / "ours")),  # type: ignore[arg-type]
        clones=clones,
        terms=Terms(limits=LIMITS, device=Device.CPU, run="a test"),
        known=known,
        tried=lambda *_: None,
    )


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    monkeypatch.setattr(commit_trials, "measure", measure)
    return straight(tmp_path, ["works", "works", "breaks"], m2="Cache it (#36001)")


def test_only_packages_that_no_environment_holds_apart_need_a_commit() -> None:
    assert undivided(blamed()) == Decision(group=GROUP)
    assert undivided(blamed(apart=False)) is None


def test_a_commit_that_is_known_decides_without_a_clone(lab: Laboratory) -> None:
    decision = deciding(lab, {KEY: FOUND})(blamed(), lab.asked())

    assert decision == Decision(group=GROUP, row=FOUND, beside=((HUB, "0.36.0", "0.36.0"),))


def test_a_commit_of_another_change_decides_nothing(lab: Laboratory) -> None:
    other = FOUND._replace(before="4.49.0")
    decision = deciding(lab, {other.key: other})(blamed(), lab.asked())

    assert decision == Decision(group=GROUP)


@pytest.mark.parametrize("reason", ["undecided", ""])
def test_with_a_clone_commits_are_searched_where_none_is_known(
    lab: Laboratory, reason: str
) -> None:
    known = {KEY: FOUND._replace(commit="", reason=reason)} if reason else {}
    decision = deciding(lab, known, open_clone(lab.clone))(blamed(), lab.asked())

    assert decision is not None
    assert decision.row is not None
    assert decision.row.commit == lab.history.shas["2"]
    assert decision.row.key == KEY


def test_a_fix_is_searched_from_the_older_end_too(tmp_path: Path, lab: Laboratory) -> None:
    healed = straight(tmp_path / "healed", ["breaks", "works", "works"])
    ask = deciding(lab, {}, open_clone(healed.clone))
    decision = ask(blamed(fix=True), lab.asked())

    assert decision is not None
    assert decision.row is not None
    assert decision.row.commit == healed.history.shas["1"]
    assert decision.row.key == KEY._replace(change="fix")


def test_sources_that_behave_alike_leave_it_to_the_environment(
    tmp_path: Path, lab: Laboratory
) -> None:
    alike = straight(tmp_path / "alike", ["works", "works"])
    decision = deciding(lab, {}, open_clone(alike.clone))(blamed(), lab.asked())

    assert decision is not None
    assert decided(decision) == (
        f"{APART}; no commit of transformers decides: the environment does."
    )


OTHER = FOUND._replace(commit="", reason="an end could not be judged.")
DECISIONS = {
    "nothing is known": Decision(group=GROUP),
    "one version beside it": Decision(group=GROUP, row=FOUND, beside=((HUB, "0.36.0", "0.36.0"),)),
    "two versions beside it": Decision(group=GROUP, row=FOUND, beside=((HUB, "0.36.0", "1.0.0"),)),
    "its packages are not here": Decision(group=GROUP, row=FOUND),
    "a fix": Decision(group=GROUP, row=FOUND._replace(change="fix")),
    "undecided": Decision(group=GROUP, row=OTHER),
}


def test_what_decides_is_said_in_a_sentence(expected: Expected) -> None:
    expected("deciding", {title: decided(each) for title, each in DECISIONS.items()})


def reported(row: PinnedCommit | None) -> BlameReport:
    return BlameReport(
        blame=blamed(),
        company=(),
        subject="toy_breaks bf16",
        ground="on cpu",
        command="nox -s blame",
        decision=Decision(group=GROUP, row=row),
    )


def test_every_format_names_the_commit_and_says_that_an_answer_was_found() -> None:
    found, nothing = reported(FOUND), reported(None)
    told, none = (document(one).data for one in (found, nothing))

    assert decided(Decision(group=GROUP, row=FOUND)) in write(document(found), "text")
    assert (found.ending, nothing.ending) == (BlameOutcome.FOUND, BlameOutcome.UNDECIDED)
    assert (told["ending"], told["commit"]) == ("found", FOUND._asdict())
    assert (none["ending"], none["commit"]) == ("undecided", None)
