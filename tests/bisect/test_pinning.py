from __future__ import annotations

import dataclasses
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING

import factories
import pytest
from histories import History, fingerprint, git, sources
from laboratory import LIMITS, FakeHome, Laboratory, laboratory, measure, straight

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.pinning import Pinning, changes_of, key_of
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import commits
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.bisect.commit_search import Inquiry
    from repromatrix.runner.environments.building import Built
    from repromatrix.runner.environments.commits import Declaration
    from repromatrix.runner.model.cell import Environment


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_trials, "measure", measure)


def pin(
    lab: Laboratory,
    *inquiries: Inquiry,
    home: FakeHome | None = None,
    beside: Path | None = None,
) -> list[PinnedCommit]:
    kept: list[PinnedCommit] = []
    Pinning(
        home=home or FakeHome(Paths(root=lab.folder / "ours")),  # type: ignore[arg-type]
        clones=[open_clone(folder) for folder in (lab.clone, beside) if folder],
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
    assert "no tag claims to be transformers 4.52.0" in missing.reason
    assert (alike.is_beyond, missing.is_beyond) == (False, True)


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
    old, new = (factories.environment(name) for name in ("4.50.3", "4.51.0"))
    pair = dataclasses.replace(old, name="4.50.3+scipy1.17.1", source=Source.PAIR)
    change = SimpleNamespace(before="older", at="newer", edge=plain.edge)
    names = {"older": pair.name, "newer": new.name}
    search = SimpleNamespace(names=names, question=plain.asked)
    (inquiry,) = changes_of(
        [SimpleNamespace(search=search, changes=[change])],  # type: ignore[list-item]
        {pair.name: pair, new.name: new},
    )

    (row,) = pin(lab, inquiry)

    assert row.environment_at.startswith("4.50.3+scipy1.17.1 ")


SILENCE = "no route to host"


class Silent(FakeHome):
    """Reaches an index for so many environments."""

    def __init__(self, paths: Paths, reached: int) -> None:
        super().__init__(paths)
        self.reached = reached

    def environment(
        self, declared: Declaration, extras: tuple[str, ...], on: str
    ) -> tuple[Environment, Built]:
        self.reached -= 1
        if self.reached < 0:
            raise UnbuildableError(SILENCE)
        return super().environment(declared, extras, on)


def test_a_network_that_dies_keeps_what_was_found_and_leaves_the_clone_as_it_was(
    tmp_path: Path,
) -> None:
    made = History()
    made.commit("opens", sources("4.50.0.dev0", "works"))
    made.commit("next", sources("4.51.0.dev0", "breaks"), message="Cache it (#36001)")
    made.commit("last", sources("4.52.0.dev0", "breaks"))
    lab = laboratory(tmp_path, made)
    older, newer = factories.environment("4.50.0"), factories.environment("4.51.0")
    inquiry = lab.inquiry(older=older, newer=newer, good=made.shas["opens"], bad="main")
    before = fingerprint(lab.clone)

    with pytest.raises(RunnerError, match=r"cannot be built \(no route to host\).*kept") as caught:
        pin(lab, inquiry, home=Silent(Paths(root=lab.folder / "ours"), 1))
    stored = Store(Paths(root=lab.folder / "ours").trials, print)
    with closing(stored):
        rows = len([*stored.rows()])
    (row,) = pin(lab, inquiry)

    assert caught.value.code is ExitCode.UNBUILDABLE
    assert rows == 1
    assert row.commit == made.shas["next"]
    assert fingerprint(lab.clone) == before


def test_where_its_clone_does_not_reach_no_other_is_searched(tmp_path: Path) -> None:
    lab = straight(tmp_path, ["works"] * 3)
    made = History()
    for version in ("0.14.0", "0.15.0"):
        made.commit(version, {"src/peft/__init__.py": f'__version__ = "{version}"\n'})
        made.tag(f"v{version}", version)
    made.write(tmp_path / "peft")
    older = factories.environment("4.52.0", peft="0.14.0")
    newer = factories.environment("4.53.0", peft="0.15.0")

    (row,) = pin(lab, lab.inquiry(older=older, newer=newer), beside=tmp_path / "peft")

    assert row.package == "transformers"
    assert row.reason.startswith("no tag claims to be transformers 4.52.0")


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
