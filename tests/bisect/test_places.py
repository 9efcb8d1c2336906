"""Where releases left main: read from a clone, kept in a file, and used where tags are missing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from histories import History, git, sources

from repromatrix.runner.bisect import places
from repromatrix.runner.bisect.clone import Clone, open_clone
from repromatrix.runner.bisect.git_lines import End, EndSource
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "transformers"


def declared(*versions: str) -> History:
    """Write a line with a commit per version, named after its place, and one after each."""
    history = History()
    for place, version in enumerate(versions):
        history.commit(f"{place}", sources(version, "works"))
        history.commit(f"{place} later", {"README": f"{place}"})
    return history


def told(history: History, clone: Clone, known: places.Places | None = None) -> dict[str, str]:
    added = places.with_clone(known or {}, clone.repository, clone.sources)
    return {line: history.name(sha) for line, sha in added[PACKAGE].items()}


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("4.55.0.dev0", "4.56.0.dev0", "4.57.0.dev0"), {"4.55": "0 later", "4.56": "1 later"}),
        (("4.57.0.dev0", "5.0.0.dev0", "5.0.1.dev0"), {"4.57": "0 later", "5.0": "1 later"}),
        # A patch version is opened, and then the next minor one: both lines are main's.
        (("5.0.0.dev0", "5.0.1.dev0", "5.2.0.dev0"), {"5.0": "0 later", "5.1": "1 later"}),
        # A bump was forgotten: 5.8 has no place, 5.9 has.
        (("5.8.0.dev0", "5.10.0.dev0"), {"5.9": "0 later"}),
        # A line that declares the releases, their candidates and the patches of their branches.
        (("0.17.2.dev0", "0.18.0.rc0", "0.18.0.rc1.dev0", "0.18.0", "0.18.1.dev0"), {"0.18": "3"}),
        # The version goes down, as for a patch release that was made on main.
        (("0.6.0", "0.7.0.dev0", "0.6.1.dev0", "0.6.1"), {"0.6": "0"}),
        # A bump that came too early was taken back.
        (("4.56.0.dev0", "4.57.0.dev0", "4.56.0.dev0", "4.57.0.dev0"), {"4.56": "2 later"}),
        (("4.57.0.dev0",), {}),
    ],
)
def test_without_tags_the_versions_along_main_place_releases(
    tmp_path: Path, versions: tuple[str, ...], expected: dict[str, str]
) -> None:
    history = declared(*versions)

    assert told(history, open_clone(history.write(tmp_path / "clone"))) == expected


def test_a_merge_of_several_versions_into_a_fork_places_none_of_them(tmp_path: Path) -> None:
    history = declared("4.50.0.dev0")
    history.commit("theirs", sources("4.57.0.dev0", "works"), branch="upstream", on="0 later")
    history.commit("merge", sources("4.57.0.dev0", "works"), merges="theirs")
    history.commit("next", sources("4.58.0.dev0", "works"))

    assert told(history, open_clone(history.write(tmp_path / "clone"))) == {"4.57": "merge"}


def test_tags_say_places_best_then_what_is_known(tmp_path: Path) -> None:
    history = declared("4.55.0.dev0", "4.56.0.dev0", "4.57.0.dev0", "4.58.0.dev0")
    for release, on in (("4.55.0", "0"), ("4.55.1", "0 later")):
        history.commit(release, sources(release, "works"), branch=f"v{release}", on=on)
        history.tag(f"v{release}", release)
    folder = history.write(tmp_path / "clone")
    git(folder, "tag", "9.9", git(folder, "rev-parse", "main:README").strip())
    known = {PACKAGE: {"4.55": "x", "4.56": history.shas["1"]}, "peft": {"0.18": "y"}}
    clone = open_clone(folder)

    assert told(history, clone, known) == {"4.55": "0", "4.56": "1", "4.57": "2 later"}
    assert places.with_clone(known, clone.repository, clone.sources)["peft"] == known["peft"]


def test_what_is_written_is_read_in_the_order_of_versions(tmp_path: Path) -> None:
    path = tmp_path / "places.toml"
    path.write_text(places.as_text({"peft": {"0.18": "a"}, PACKAGE: {"4.100": "b", "4.9": "c"}}))

    assert {name: [*lines] for name, lines in places.read(path).items()} == {
        "peft": ["0.18"],
        PACKAGE: ["4.9", "4.100"],
    }
    path.write_text("[transformers\n")
    with pytest.raises(RunnerError, match=r"places\.toml: it cannot be read"):
        places.read(path)


def test_the_file_of_this_checkout_is_written_as_the_command_writes_it() -> None:
    path = Paths().places

    assert path.read_text() == places.as_text(places.read(path))


# ------------------------------------------------------- the ends of a boundary


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Clone]:
    """A clone without tags, and a file of the places that it tells itself, and of one beyond it."""
    history = declared("4.49.0.dev0", "4.50.0.dev0", "4.51.0.dev0", "4.52.0.dev0")
    clone = open_clone(history.write(tmp_path_factory.mktemp("fork") / "clone"))
    known = places.with_clone({}, clone.repository, clone.sources)[PACKAGE]
    return history, dataclasses.replace(clone, places={**known, "4.53": "f" * 40})


def test_an_end_that_the_file_places_says_what_stands_for_the_release(
    fork: tuple[History, Clone],
) -> None:
    history, clone = fork
    older, newer = clone.ends("4.50.0", "4.51.0")
    cut = history.shas["1 later"]

    assert older == End(
        release="4.50.0",
        revision="the cut of 4.50",
        commit=cut,
        claims="4.50.0.dev0",
        by=EndSource.PLACE,
        note="4.50.0 is not in the clone; the commit from which 4.50 was cut,"
        f" {cut[:12]}, stands for it",
    )
    routes = clone.routes(older, newer)
    assert [history.name(sha) for sha in routes.trunk.commits] == ["1 later", "2", "2 later"]


@pytest.mark.parametrize(
    ("older", "newer", "stand"),
    [
        ("4.50.3", "4.51.0", ("1 later", "2 later")),
        # What was picked to the branch came from main before the next line was cut.
        ("4.49.0", "4.50.3", ("0 later", "2 later")),
    ],
)
def test_for_a_patch_release_main_stands(
    fork: tuple[History, Clone], older: str, newer: str, stand: tuple[str, str]
) -> None:
    history, clone = fork

    assert [history.name(end.commit) for end in clone.ends(older, newer)] == [*stand]


def test_for_a_patch_release_of_the_newest_line_the_newest_commit_stands(
    fork: tuple[History, Clone],
) -> None:
    history, clone = fork
    newest = dataclasses.replace(clone, places={"4.51": clone.places["4.51"]})
    _, newer = newest.ends("4.51.0", "4.52.1")

    assert (history.name(newer.commit), newer.revision) == ("3 later", "main")


@pytest.mark.parametrize(
    ("older", "newer", "message"),
    [
        ("4.50.2", "4.50.3", r"4\.50\.2; they lie on one branch, and the clone lacks it"),
        ("4.50.0", "4.50.3", r"4\.50\.0; they lie on one branch, and the clone lacks it"),
        ("4.51.0", "4.53.0", r"4\.53\.0; the main branch of the clone ends before it"),
        ("4.47.0", "4.50.0", r"4\.47\.0; the clone lacks it, and no place on main is known"),
    ],
)
def test_what_nothing_tells_is_refused_with_the_command_that_adds_it(
    fork: tuple[History, Clone], older: str, newer: str, message: str
) -> None:
    with pytest.raises(RunnerError, match=f"{message}.*nox -s history -- --places --repo CLONE"):
        fork[1].ends(older, newer)


def test_a_development_version_is_its_own_end(fork: tuple[History, Clone]) -> None:
    history, clone = fork
    version = f"4.52.0.dev0+g{history.shas['3 later'][:12]}"
    older, newer = clone.ends("4.51.0", version)

    assert [history.name(end.commit) for end in (older, newer)] == ["2 later", "3 later"]
    assert newer.by is EndSource.REVISION
