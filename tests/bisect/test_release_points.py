"""Where releases lie in a clone without tags, told by the versions that its main line declares."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from histories import History, git, sources

from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect.git_lines import EndSource
from repromatrix.runner.bisect.repository import Repository, open_repository
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.errors import RunnerError

if TYPE_CHECKING:
    from pathlib import Path

TRANSFORMERS = PackageSources(package="transformers", root="src")


def declared(*versions: str) -> History:
    """Write a line with a commit per version, named after it and its place, and one after each."""
    history = History()
    for place, version in enumerate(versions):
        history.commit(f"{place}", sources(version, "works"))
        history.commit(f"{place} later", {"README": f"{place}"})
    return history


def points(history: History, folder: Path) -> dict[str, str]:
    repository = open_repository(history.write(folder))
    found = git_lines.release_points(repository, TRANSFORMERS)
    return {version: history.name(end.commit) for version, end in found.items()}


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("4.55.0.dev0", "4.56.0.dev0", "4.57.0.dev0"), {"4.55.0": "0 later", "4.56.0": "1 later"}),
        (("4.57.0.dev0", "5.0.0.dev0", "5.0.1.dev0"), {"4.57.0": "0 later", "5.0.0": "1 later"}),
        # A patch version is opened, and then the next minor one: both releases are main's.
        (("5.0.0.dev0", "5.0.1.dev0", "5.2.0.dev0"), {"5.0.0": "0 later", "5.1.0": "1 later"}),
        # A bump was forgotten: 5.8.0 has no place, 5.9.0 has.
        (("5.8.0.dev0", "5.10.0.dev0", "5.13.0.dev0"), {"5.9.0": "0 later", "5.12.0": "1 later"}),
        (("0.35.0.dev0", "1.1.0.dev0"), {"1.0.0": "0 later"}),
        # A line that declares the releases, their candidates and the patches of their branches.
        (
            ("0.17.2.dev0", "0.18.0.rc0", "0.18.0.rc1.dev0", "0.18.0", "0.18.1.dev0"),
            {"0.18.0rc0": "1", "0.18.0": "3"},
        ),
        (("0.15.0", "0.15.1.dev0", "0.15.2.dev0"), {"0.15.0": "0"}),
        # The version goes down, as for a patch release that was made on main.
        (("0.6.0", "0.7.0.dev0", "0.6.1.dev0", "0.6.1"), {"0.6.0": "0", "0.6.1": "3"}),
        # A bump that came too early was taken back.
        (("4.56.0.dev0", "4.57.0.dev0", "4.56.0.dev0", "4.57.0.dev0"), {"4.56.0": "2 later"}),
        (("4.57.0.dev0",), {}),
    ],
)
def test_the_versions_along_main_place_releases(
    tmp_path: Path, versions: tuple[str, ...], expected: dict[str, str]
) -> None:
    assert points(declared(*versions), tmp_path / "clone") == expected


def test_a_commit_that_declares_no_version_places_nothing(tmp_path: Path) -> None:
    history = declared("4.55.0.dev0")
    history.commit("broken", {"src/transformers/__init__.py": "__version__ = version()\n"})
    history.commit("mended", sources("4.55.0.dev0", "works"))
    history.commit("next", sources("4.56.0.dev0", "works"))

    assert points(history, tmp_path / "clone") == {"4.55.0": "mended"}


def test_a_merge_of_several_versions_into_a_fork_places_none_of_them(tmp_path: Path) -> None:
    history = declared("4.50.0.dev0")
    history.commit("theirs", sources("4.57.0.dev0", "works"), branch="upstream", on="0 later")
    history.commit("merge", sources("4.57.0.dev0", "works"), merges="theirs")
    history.commit("next", sources("4.58.0.dev0", "works"))

    assert points(history, tmp_path / "clone") == {"4.57.0": "merge"}


def test_a_tag_is_used_where_there_is_one(tmp_path: Path) -> None:
    history = declared("4.55.0.dev0", "4.56.0.dev0", "4.57.0.dev0")
    history.commit("release", sources("4.55.0", "works"), branch="v4.55", on="0")
    history.tag("v4.55.0", "release")
    repository = open_repository(history.write(tmp_path / "clone"))

    found = git_lines.release_points(repository, TRANSFORMERS)

    assert list(found) == ["4.55.0", "4.56.0"]
    assert found["4.55.0"] == git_lines.TaggedCommit(
        wanted="4.55.0", revision="v4.55.0", commit=history.shas["release"], claims="4.55.0"
    )
    assert (found["4.56.0"].by, found["4.56.0"].agrees) == (EndSource.DECLARED, True)


def test_annotated_tags_and_tags_of_no_release_do_no_harm(tmp_path: Path) -> None:
    history = declared("4.55.0.dev0", "4.56.0")
    folder = history.write(tmp_path / "clone")
    blob = git(folder, "rev-parse", "main:README").strip()
    git(folder, "tag", "--annotate", "--message=it", "v4.56.0", history.shas["1 later"])
    git(folder, "tag", "9.9", blob)
    git(folder, "tag", "v4.55.0", history.shas["0"])
    found = git_lines.release_points(open_repository(folder), TRANSFORMERS)

    ends = {version: (end.revision, history.name(end.commit)) for version, end in found.items()}
    assert ends == {"4.56.0": ("v4.56.0", "1 later")}


def test_the_newest_main_branch_is_read(tmp_path: Path) -> None:
    history = declared("4.55.0.dev0", "4.56.0.dev0")
    folder = history.write(tmp_path / "clone")
    git(folder, "update-ref", "refs/remotes/origin/main", history.shas["1 later"])
    git(folder, "update-ref", "refs/heads/main", history.shas["0"])
    found = git_lines.release_points(open_repository(folder), TRANSFORMERS)

    assert [end.revision for end in found.values()] == ["origin/main before 4.56.0.dev0"]


# ------------------------------------------------------- the ends of a boundary


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Repository]:
    history = declared("4.49.0.dev0", "4.50.0.dev0", "4.51.0.dev0", "4.52.0.dev0", "4.54.0.dev0")
    return history, open_repository(history.write(tmp_path_factory.mktemp("fork") / "clone"))


def released_ends(
    repository: Repository, older: str, newer: str
) -> tuple[git_lines.TaggedCommit, git_lines.TaggedCommit]:
    points = git_lines.release_points(repository, TRANSFORMERS)
    return git_lines.released_ends(repository, TRANSFORMERS, older, newer, points)


def test_a_derived_end_says_how_it_is_known(fork: tuple[History, Repository]) -> None:
    history, repository = fork
    older, newer = released_ends(repository, "4.50.0", "4.51.0")

    assert older == git_lines.TaggedCommit(
        wanted="4.50.0",
        revision="main before 4.51.0.dev0",
        commit=history.shas["1 later"],
        claims="4.50.0.dev0",
        by=EndSource.DECLARED,
        note=f"4.50.0 has no tag: {history.shas['2'][:12]} is the first to declare 4.51.0.dev0",
        earliest=history.shas["1"],
    )
    routes = git_lines.between(repository, older, newer)
    assert [history.name(sha) for sha in routes.trunk.commits] == ["1 later", "2", "2 later"]


@pytest.mark.parametrize(
    ("older", "newer", "stand_for"),
    [
        ("4.50.3", "4.51.0", ("4.50.0", "4.51.0")),
        ("4.49.0", "4.50.3", ("4.49.0", "4.51.0")),
        ("4.50.3", "4.51.3", ("4.50.0", "4.53.0")),
        ("4.51.3", "4.52.1", ("4.51.0", "4.53.0")),
        ("4.52.0", "4.53.0", ("4.51.0", "4.53.0")),
    ],
)
def test_for_a_release_that_the_clone_lacks_stands_the_nearest_outside(
    fork: tuple[History, Repository], older: str, newer: str, stand_for: tuple[str, str]
) -> None:
    repository = fork[1]
    known = git_lines.release_points(repository, TRANSFORMERS)
    ends = released_ends(repository, older, newer)

    for end, wanted, other in zip(ends, (older, newer), stand_for, strict=True):
        stands = f"{wanted} is not in the clone; {other} stands for it; {known[other].note}"
        note = known[other].note if wanted == other else stands
        assert end == dataclasses.replace(known[other], wanted=wanted, note=note)


def test_for_a_release_that_is_not_out_there_stands_the_newest_commit(
    fork: tuple[History, Repository],
) -> None:
    history, repository = fork
    _, newer = released_ends(repository, "4.53.0", "4.54.0")
    tip = history.shas["4 later"]

    assert newer == git_lines.TaggedCommit(
        wanted="4.54.0",
        revision="main",
        commit=tip,
        claims="4.54.0.dev0",
        by=EndSource.DECLARED,
        note=f"4.54.0 is not in the clone; its newest commit, {tip[:12]}, stands for it",
    )


@pytest.mark.parametrize(
    ("older", "newer", "message"),
    [
        (
            "4.50.2",
            "4.50.3",
            r"4\.50\.2; a patch release lies on a branch, and the clone lacks it.* \(4\.50\.0 is",
        ),
        ("4.50.0", "4.50.3", r"4\.50\.3; a patch release lies on a branch"),
        ("4.54.0", "4.55.0", r"4\.55\.0; the main branch of the clone ends before it"),
        ("4.47.0", "4.50.0", r"4\.47\.0; no commit of the main branch opens the version after it"),
    ],
)
def test_what_is_out_of_reach_is_refused_with_what_to_do(
    fork: tuple[History, Repository], older: str, newer: str, message: str
) -> None:
    with pytest.raises(RunnerError, match=message):
        released_ends(fork[1], older, newer)


def test_a_development_version_is_its_own_end(fork: tuple[History, Repository]) -> None:
    history, repository = fork
    version = f"4.54.0.dev0+g{history.shas['4 later'][:12]}"
    older, newer = released_ends(repository, "4.53.0", version)

    assert [history.name(end.commit) for end in (older, newer)] == ["3 later", "4 later"]
    assert newer.by is EndSource.REVISION
