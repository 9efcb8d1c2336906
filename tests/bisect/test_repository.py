from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from histories import History, fingerprint, git, sources

from repromatrix.runner import git as git_runner
from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.git_lines import CommitLine, End, Routes
from repromatrix.runner.bisect.repository import (
    Commit,
    Repository,
    claimed_or_nothing,
    find_sources,
    open_repository,
    opened,
)
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.errors import RunnerError

if TYPE_CHECKING:
    from pathlib import Path

TRANSFORMERS = PackageSources(package="transformers", root="src")


def releases() -> History:
    """Two release branches that leave main, the second with a cherry-pick."""
    history = History()
    history.commit("a", sources("4.50.0.dev0", "works"))
    history.commit("b", sources("4.51.0.dev0", "works"))
    history.commit("old release", sources("4.50.3", "works"), branch="v4.50", on="a")
    history.commit("c", {"README": "c"}, message="Say more (#12)")
    history.commit("d", sources("4.52.0.dev0", "works"))
    history.commit("fix", {"fix": "1"}, message="Heal it (#37044)\n\nWith love.")
    history.commit("new release", sources("4.51.0", "works"), branch="v4.51", on="c")
    history.commit("pick", {"fix": "1"}, branch="v4.51", message="Heal it (#37044)")
    history.tag("v4.50.3", "old release")
    history.tag("v4.51.0", "pick")
    return history


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Repository]:
    history = releases()
    folder = history.write(tmp_path_factory.mktemp("history") / "clone")
    return history, open_repository(folder)


def clone_of(repository: Repository) -> Clone:
    return Clone(repository=repository, sources=TRANSFORMERS)


def released(repository: Repository, version: str) -> End:
    return clone_of(repository).released(version)


def between(repository: Repository) -> Routes:
    clone = clone_of(repository)
    return clone.routes(*clone.ends("4.50.3", "4.51.0"))


def named(history: History, line: CommitLine | None) -> list[str]:
    return [history.name(commit) for commit in line.commits] if line else []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('import x\n\n__version__ = "4.51.0.dev0"\n', "4.51.0.dev0"),
        ("__version__: str = '0.15.2'\n", "0.15.2"),
        ('x = 1\n    __version__ = "1.0"\n', ""),
        ('__version__ = "unknown"\n', ""),
    ],
)
def test_a_claim_is_what_the_package_assigns(text: str, version: str) -> None:
    assert claimed_or_nothing(text) == version


def test_a_commit_is_read_with_its_pull_request(written: tuple[History, Repository]) -> None:
    history, repository = written
    found = repository.commit(history.shas["fix"])

    assert found == Commit(
        sha=history.shas["fix"],
        date="2025-03-07T01:00:00+01:00",
        subject="Heal it (#37044)",
    )
    assert (found.pull_request, repository.commit(history.shas["a"]).pull_request) == (37044, None)


def test_a_revert_has_its_own_number() -> None:
    found = Commit(sha="", date="", subject='Revert "Heal it (#12)" (#13)')

    assert found.pull_request == 13


def test_the_package_is_found_in_the_tree(tmp_path: Path) -> None:
    history = History()
    history.commit("a", {"accelerate/__init__.py": '__version__ = "1.3.0"\n'})
    repository = open_repository(history.write(tmp_path / "clone"))

    found = find_sources(repository, repository.tip())

    assert found == PackageSources(package="accelerate", root="")
    assert repository.claims(history.shas["a"], found) == "1.3.0"


def test_a_clone_of_another_owner_is_refused_with_what_to_do(
    written: tuple[History, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    another = {**git_runner.git_environ(), "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    monkeypatch.setattr(git_runner, "git_environ", lambda: another)
    folder = written[1].folder

    with pytest.raises(RunnerError) as caught:
        open_repository(folder)
    assert str(caught.value) == (
        f"--repo {folder}: detected dubious ownership in repository at '{folder}'."
        f" If you trust it: `git config --global --add safe.directory {folder}`."
    )


def test_a_bare_clone_serves(written: tuple[History, Repository], tmp_path: Path) -> None:
    history, repository = written
    git(tmp_path, "clone", "--quiet", "--bare", str(repository.folder), "bare")
    bare = open_repository(tmp_path / "bare")

    assert (bare.is_bare, bare.is_dirty()) == (True, False)
    assert released(bare, "4.50.3").commit == history.shas["old release"]


def test_a_worktree_of_a_clone_serves(tmp_path: Path) -> None:
    history = releases()
    folder = history.write(tmp_path / "clone")
    git(folder, "worktree", "add", "--quiet", "--detach", str(tmp_path / "beside"))

    beside = open_repository(tmp_path / "beside")

    assert beside.objects == folder / ".git" / "objects"


def test_a_folder_inside_of_a_clone_serves(written: tuple[History, Repository]) -> None:
    repository = written[1]
    inside = open_repository(repository.folder / "src")

    assert inside.objects == repository.objects
    assert released(inside, "4.50.3") == released(repository, "4.50.3")


def test_a_change_that_is_not_committed_is_seen_and_a_new_file_is_none(tmp_path: Path) -> None:
    folder = releases().write(tmp_path / "clone")
    repository = open_repository(folder)
    (folder / "notes").write_text("mine")
    before = repository.is_dirty()
    (folder / "README").write_text("mine")

    assert (before, repository.is_dirty()) == (False, True)


@pytest.mark.parametrize("revision", ["nothing", "", "--all", "v4.50.3:README"])
def test_a_revision_that_names_no_commit_is_refused(
    written: tuple[History, Repository], revision: str
) -> None:
    with pytest.raises(RunnerError, match=r"^--good: "):
        written[1].revision(revision, "--good")


def test_a_release_is_found_by_its_tag(written: tuple[History, Repository]) -> None:
    history, repository = written
    mark = released(repository, "4.50.3")

    assert mark == End(
        release="4.50.3",
        revision="v4.50.3",
        commit=history.shas["old release"],
        claims="4.50.3",
    )
    assert mark.agrees


def test_the_claim_decides_where_tag_and_version_differ(tmp_path: Path) -> None:
    history = History()
    for name in ("5.10.1", "5.10.2", "5.10.4"):
        history.commit(name, sources(name, "works"))
    for tag, at in (("v5.10.1", "5.10.1"), ("5.10.2", "5.10.2"), ("v5.10.3", "5.10.4")):
        history.tag(tag, at)
    history.tag("v5.10.2-preview-of-something", "5.10.4")
    repository = open_repository(history.write(tmp_path / "clone"))

    found = [released(repository, name) for name in ("5.10.2", "5.10.4")]

    assert [(mark.revision, mark.claims, mark.agrees) for mark in found] == [
        ("5.10.2", "5.10.2", True),
        ("v5.10.3", "5.10.4", False),
    ]
    with pytest.raises(RunnerError, match=r"5\.10\.3; v5\.10\.3 claims 5\.10\.4.*fetch --tags"):
        released(repository, "5.10.3")


def test_a_development_version_names_its_commit(written: tuple[History, Repository]) -> None:
    history, repository = written
    version = f"4.52.0.dev0+g{history.shas['d'][:12]}"

    assert released(repository, version).commit == history.shas["d"]


def test_between_two_release_branches_lies_the_main_line(
    written: tuple[History, Repository],
) -> None:
    history, repository = written
    routes = between(repository)

    assert named(history, routes.trunk) == ["a", "b", "c"]
    assert named(history, routes.older) == ["a", "old release"]
    assert named(history, routes.newer) == ["c", "new release", "pick"]
    assert routes.trunk.name == "main"


def test_a_stale_main_is_passed_over(tmp_path: Path) -> None:
    history = releases()
    folder = history.write(tmp_path / "clone")
    git(folder, "update-ref", "refs/remotes/origin/main", history.shas["a"])
    repository = open_repository(folder)

    assert clone_of(repository).main == "refs/heads/main"


def test_patch_releases_share_the_line_of_their_branch(
    written: tuple[History, Repository],
) -> None:
    history, repository = written
    clone = clone_of(repository)
    older = clone.named(history.shas["new release"], "--good")
    routes = clone.routes(older, clone.released("4.51.0"))

    assert named(history, routes.trunk) == ["new release", "pick"]
    assert (routes.older, routes.newer) == (None, None)
    assert routes.trunk.name == "the branch of v4.51.0"


def test_branches_of_one_commit_meet_there(tmp_path: Path) -> None:
    history = History()
    history.commit("a", sources("4.50.0", "works"))
    history.commit("one", sources("4.50.3", "works"), branch="one", on="a")
    history.commit("other", sources("4.51.0", "works"), branch="other", on="a")
    history.commit("b", {"b": "b"})
    history.tag("v4.50.3", "one")
    history.tag("v4.51.0", "other")
    repository = open_repository(history.write(tmp_path / "clone"))

    routes = between(repository)

    found = [named(history, line) for line in (routes.trunk, routes.older, routes.newer)]
    assert found == [["a"], ["a", "one"], ["a", "other"]]


def test_a_release_branch_that_was_merged_back_still_has_left_main(tmp_path: Path) -> None:
    history = History()
    history.commit("a", sources("4.50.0", "works"))
    history.commit("b", {"b": "b"})
    history.commit("one", sources("4.50.3", "works"), branch="one", on="a")
    history.commit("back", {"c": "c"}, merges="one")
    history.commit("d", sources("4.51.0", "works"))
    history.tag("v4.50.3", "one")
    history.tag("v4.51.0", "d")
    repository = open_repository(history.write(tmp_path / "clone"))

    routes = between(repository)

    assert named(history, routes.trunk) == ["a", "b", "back", "d"]
    assert named(history, routes.older) == ["a", "one"]


def test_without_a_main_branch_what_is_checked_out_is_one(tmp_path: Path) -> None:
    history = releases()
    folder = history.write(tmp_path / "clone")
    git(folder, "branch", "--quiet", "-m", "main", "trunk")
    repository = open_repository(folder)

    routes = between(repository)

    found = [named(history, line) for line in (routes.trunk, routes.older, routes.newer)]
    assert found == [["a", "b", "c"], ["a", "old release"], ["c", "new release", "pick"]]


def test_ends_that_are_one_or_reversed_are_refused(written: tuple[History, Repository]) -> None:
    history, repository = written
    clone = clone_of(repository)
    a, c = (clone.named(history.shas[name], "--good") for name in "ac")

    with pytest.raises(RunnerError, match="the same commit"):
        clone.routes(a, a)
    with pytest.raises(RunnerError, match=r"is an ancestor of .* with --fix"):
        clone.routes(c, a)


def test_ends_without_a_common_history_are_refused(tmp_path: Path) -> None:
    history = History()
    history.commit("a", sources("4.50.3", "works"))
    history.commit("b", sources("4.51.0", "works"), branch="orphan")
    history.tag("v4.50.3", "a")
    history.tag("v4.51.0", "b")
    repository = open_repository(history.write(tmp_path / "clone"))

    with pytest.raises(RunnerError, match=r"v4\.50\.3 and v4\.51\.0 have no common history"):
        between(repository)


def test_a_checkout_of_ours_leaves_the_clone_as_it_was(tmp_path: Path) -> None:
    history = releases()
    folder = history.write(tmp_path / "clone")
    git(folder, "config", "core.hooksPath", "hooks")
    (folder / "README").write_text("mine")
    before = fingerprint(folder)
    home = tmp_path / "home"

    with opened(home, open_repository(folder), TRANSFORMERS) as held:
        held.check_out(history.shas["c"])
        during = sorted(path.name for path in (held.tree / "src" / "transformers").iterdir())
        readme = (held.tree / "README").read_text()

    assert (during, readme) == (["__init__.py", "state.txt"], "c")
    assert [path.name for path in home.iterdir()] == ["1.lock"]
    assert fingerprint(folder) == before


def test_only_the_package_is_checked_out_and_what_lies_at_the_top(tmp_path: Path) -> None:
    history = History()
    extra = {"tests/deep/test.py": "", "src/other.py": "", "setup.py": ""}
    history.commit("a", {**sources("4.50.3", "works"), **extra})
    folder = history.write(tmp_path / "clone")

    with opened(tmp_path / "home", open_repository(folder), TRANSFORMERS) as held:
        held.check_out(history.shas["a"])
        found = sorted(
            str(path.relative_to(held.tree))
            for path in held.tree.rglob("*")
            if path.is_file() and ".git" not in path.parts
        )

    package = ["src/transformers/__init__.py", "src/transformers/state.txt"]
    assert found == ["setup.py", "src/other.py", *package]


def test_two_searches_at_once_have_a_checkout_each(tmp_path: Path) -> None:
    history = releases()
    repository = open_repository(history.write(tmp_path / "clone"))
    home = tmp_path / "home"

    with (
        opened(home, repository, TRANSFORMERS) as one,
        opened(home, repository, TRANSFORMERS) as other,
    ):
        one.check_out(history.shas["a"])
        other.check_out(history.shas["c"])
        names = (one.folder.name, other.folder.name)
        readmes = [(held.tree / "README").exists() for held in (one, other)]

    assert (names, readmes) == (("1", "2"), [False, True])


def test_what_a_killed_search_left_is_removed_by_the_next(tmp_path: Path) -> None:
    repository = open_repository(releases().write(tmp_path / "clone"))
    home = tmp_path / "home"
    for number in (1, 3):
        (home / str(number) / "tree").mkdir(parents=True)
        (home / f"{number}.lock").touch()

    with opened(home, repository, TRANSFORMERS) as held:
        during = sorted(path.name for path in home.iterdir() if path.is_dir())

    assert (during, held.folder.name) == (["1"], "1")
