"""The commit in which a failure was seen: how it is named, tried, and placed among releases."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import factories
import pytest
from laboratory import LIMITS, FakeHome, Laboratory, measure, straight

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.releases import searches
from repromatrix.runner.bisect.search import Answer, Sought
from repromatrix.runner.bisect.seen import SeenPoint, SeenTrial, find_seen, said, try_seen
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.bisect.oracle import CaseQuestion

RELEASES = ("4.49.0", "4.50.0", "4.50.3", "4.51.0")


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_trials, "measure", measure)


def tried(lab: Laboratory, asked: CaseQuestion) -> SeenTrial:
    """Try the commit `1` with all that a trial does but measure."""
    seen = find_seen(open_clone(lab.clone), f"main@{lab.history.shas['1'][:10]}")
    home = FakeHome(Paths(root=lab.folder / "ours"))
    terms = Terms(limits=LIMITS, device=Device.CPU, run="a test")
    (one,) = try_seen(home, seen, [asked], terms)  # type: ignore[arg-type]
    return one


def point(lab: Laboratory, asked: CaseQuestion) -> SeenPoint:
    found = tried(lab, asked).point
    assert found is not None
    return found


def test_a_commit_is_named_with_what_it_claims_and_its_day(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks"])
    sha = lab.history.shas["1"]
    seen = find_seen(open_clone(lab.clone), f"main@{sha[:10]}")

    assert seen.name == f"main@{sha[:12]}"
    assert seen.text == f"main@{sha[:12]} (4.51.0.dev0, 2025-03-03)"
    assert said(seen, lab.asked(), tried(lab, lab.asked()).trial) == (
        f"toy_breaks bf16 fails at {seen.text}: ValueError: it breaks"
    )


@pytest.mark.parametrize("typed", ["main@v4.50.3", "main@HEAD", "main@123", "main@" + "f" * 40])
def test_what_names_no_commit_of_the_clone_is_refused(tmp_path: Path, typed: str) -> None:
    lab = straight(tmp_path, ["works", "breaks"])

    with pytest.raises(RunnerError, match="--seen: invalid value"):
        find_seen(open_clone(lab.clone), typed)


def test_it_is_a_point_between_the_releases_around_its_version(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks"])
    found = point(lab, lab.asked())
    (search,) = searches(
        found.question,
        Sought(nearest=True),
        found.among(factories.environments(*RELEASES)),
        {"4.50.3", "4.51.0", found.environment.name},
        found.environment.name,
    )

    assert search.names == ("4.50.3", f"main@{lab.history.shas['1'][:12]}", "4.51.0")
    assert search.answers({found.row.cell: found.row}) == {1: Answer.YES}
    assert search.sought.seen == 1


def test_releases_with_extras_stand_around_it_too(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks"])
    found = point(lab, lab.asked())
    case = dataclasses.replace(found.question.case, extras=("timm",))
    found = dataclasses.replace(found, question=dataclasses.replace(found.question, case=case))
    extended = [
        factories.environment(f"{name}+timm", transformers=name) for name in ("4.50.3", "4.51.0")
    ]
    every = {**factories.environments(*RELEASES), **{one.name: one for one in extended}}
    (search,) = searches(found.question, Sought(), found.among(every))

    assert search.names == ("4.50.3+timm", found.environment.name, "4.51.0+timm")


def test_a_script_that_describes_nothing_is_searched_for_what_it_did_there(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "other"])
    mute = lab.asked(case=factories.case())
    found = point(lab, mute)

    assert found.row.outcome is Outcome.FAILS
    assert found.question.signature == factories.failed("TypeError", "something else").signature
    assert found.question.answer(found.row) is Answer.YES


def test_a_commit_that_fails_otherwise_is_no_point(tmp_path: Path) -> None:
    one = tried(straight(tmp_path, ["works", "other"]), straight(tmp_path / "b", ["works"]).asked())

    assert one.point is None
    assert one.trial.reason == "fails differently (TypeError: something else)"
