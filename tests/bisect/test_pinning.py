from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING

import factories
import pytest
from histories import git
from laboratory import LIMITS, FakeHome, Laboratory, measure, straight

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.pinning import Pinning, changes_of, key_of
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.evidence import commits
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.bisect.commit_search import Inquiry


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_trials, "measure", measure)


def pin(lab: Laboratory, *inquiries: Inquiry) -> list[PinnedCommit]:
    kept: list[PinnedCommit] = []
    Pinning(
        home=FakeHome(Paths(root=lab.folder / "ours")),  # type: ignore[arg-type]
        clones=[open_clone(lab.clone)],
        terms=Terms(limits=LIMITS, device=Device.CPU, run="a test"),
        keep=kept.append,
    ).pin(inquiries)
    return kept


def test_a_change_is_kept_with_its_commit_and_what_both_sides_did(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "works", "breaks", "breaks"], m2="Cache it (#36001)")
    digest = factories.environment("4.50.3").digest

    (row,) = pin(lab, lab.inquiry())

    assert row == PinnedCommit(
        case="toy_breaks",
        workaround="",
        precision="bf16",
        device="cpu",
        change="break",
        before="4.50.3",
        at="4.51.0",
        package="transformers",
        commit=lab.history.shas["2"],
        parent=lab.history.shas["1"],
        date="2025-03-04",
        title="Cache it (#36001)",
        pull_request="36001",
        outcome_before="passes",
        outcome_at="ValueError: it breaks",
        unjudged="0",
        environment_before=f"4.50.3 {digest}",
        environment_at=f"4.50.3 {digest}",
    )
    assert row.url == "https://github.com/huggingface/transformers/pull/36001"


def test_a_change_that_no_commit_makes_is_kept_with_the_reason(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works"] * 3)
    beyond = lab.inquiry(
        older=factories.environment("4.52.0"), newer=factories.environment("4.53.0")
    )

    alike, missing = sorted(pin(lab, lab.inquiry(), beyond), key=lambda row: row.at)

    assert (alike.commit, missing.commit) == ("", "")
    assert "no commit of transformers decides, the environment does" in alike.reason
    assert "no tag claims to be transformers 4.53.0" in missing.reason


def test_of_a_fork_only_commits_with_a_pull_request_of_upstream_are_pinned(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "works", "breaks"])
    git(lab.clone, "remote", "add", "origin", "https://github.com/somebody/transformers.git")

    (row,) = pin(lab, lab.inquiry())

    short = lab.history.shas["2"][:12]
    why = f"{short} names no upstream pull request, and the clone is a fork"
    assert (row.commit, row.reason) == ("", why)


def test_a_case_that_needs_a_pair_is_tried_with_the_packages_of_its_older_one(
    tmp_path: Path,
) -> None:
    lab = straight(tmp_path, ["works", "breaks"], m1="Cache it (#36001)")
    plain = lab.inquiry()
    pair = dataclasses.replace(plain.older, name="4.50.3+scipy1.17.1", source=Source.PAIR)
    change = SimpleNamespace(before="older", at="newer", edge=plain.edge)
    names = {"older": pair.name, "newer": plain.newer.name}
    search = SimpleNamespace(names=names, question=plain.asked)
    (inquiry,) = changes_of(
        [SimpleNamespace(search=search, changes=[change])],  # type: ignore[list-item]
        {pair.name: pair, plain.newer.name: plain.newer},
    )

    (row,) = pin(lab, inquiry)

    assert row.environment_at.startswith("4.50.3+scipy1.17.1 ")


def test_a_package_without_a_clone_is_named(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works"] * 3)
    older, newer = factories.environment("4.50.3"), factories.environment("4.50.3")
    newer = dataclasses.replace(newer, name="other", pins={**newer.pins, "peft": "9.0"})

    (row,) = pin(lab, lab.inquiry(older=older, newer=newer))

    assert row.reason == "no clone of peft was given"


def test_what_was_found_is_kept_until_the_next_search_of_the_same_change(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works", "breaks"])
    paths = Paths(root=tmp_path)
    nothing = PinnedCommit(*key_of(lab.inquiry()), package="transformers", reason="undecided")
    found = nothing._replace(commit="c" * 40, reason="")
    fix = PinnedCommit(*key_of(lab.inquiry(Edge.FALL)), package="transformers", reason="undecided")

    for row in (nothing, fix, found):
        commits.keep(paths, row)

    assert commits.known_commits(paths) == {found.key: found, fix.key: fix}
