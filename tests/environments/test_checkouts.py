"""A checkout of a package under test: what it is, what tells it from others, what it is not."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from factories import environment

from repromatrix.runner.environments.commits import Declaration
from repromatrix.runner.environments.development import (
    Checkout,
    SourceState,
    build_main_checkout,
    content,
    main_checkout,
    marks,
    read_checkout,
    repository_of,
)
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.cell import Source

if TYPE_CHECKING:
    from pathlib import Path

INIT = '"""A package."""\n\n__version__ = "4.51.0.dev0"\n'


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    command = ["git", "-C", str(folder), *own, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Make a repository of one package on a branch, with compiled files that git ignores."""
    package = tmp_path / "clone" / "src" / "transformers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INIT)
    (package / "part.py").write_text("value = 1\n")
    (tmp_path / "clone" / "setup.py").write_text('setup(install_requires=["hub>=1"])\n')
    (tmp_path / "clone" / ".gitignore").write_text("__pycache__/\nignored.py\n")
    folder = tmp_path / "clone"
    git(folder, "init", "--quiet", "--initial-branch=heal")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=A release")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "part.cpython-311.pyc").write_bytes(b"compiled")
    (folder / "notes.txt").write_text("not of the package")
    return folder


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_checkout_is_known_by_its_commit_and_reading_writes_nothing(clone: Path) -> None:
    os.utime(clone / "src" / "transformers" / "part.py", (1, 1))  # git would refresh its index
    commit = git(clone, "rev-parse", "HEAD")
    before = files(clone)
    found = read_checkout(clone)

    assert found == Checkout(
        package="transformers",
        root=clone / "src",
        claims="4.51.0.dev0",
        standing=SourceState(commit=commit, branch="heal", content=""),
        declared=Declaration(
            package="transformers",
            requirements=("hub>=1",),
            day=dt.datetime.now(tz=dt.UTC).date(),
        ),
    )
    assert found.version == f"4.51.0.dev0+g{commit[:12]}"
    assert files(clone) == before


@pytest.mark.parametrize("name", ["part.py", "added.py", "ignored.py", "kernel.cu"])
def test_an_edited_checkout_is_told_by_its_content(name: str, clone: Path) -> None:
    package = clone / "src" / "transformers"
    committed = read_checkout(clone).standing
    (package / name).write_text("value = 2\n")
    edited = read_checkout(clone).standing

    assert (committed.content, edited.content) == ("", content(package))
    assert edited.identity == f"{committed.commit[:12]}dirty{content(package)}"


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_an_edit_that_git_was_told_to_pass_over_is_told_by_its_content(
    flag: str, clone: Path
) -> None:
    committed = read_checkout(clone).standing
    part = clone / "src" / "transformers" / "part.py"
    git(clone, "update-index", flag, "src/transformers/part.py")
    part.write_text("value = 2\n")

    found = read_checkout(clone).standing

    assert (committed.content, found.commit) == ("", committed.commit)
    assert found.content == content(part.parent)


def test_content_tells_where_a_file_lies(tmp_path: Path) -> None:
    seen = []
    for name in ("a.py", "b.py"):
        folder = tmp_path / name.removesuffix(".py")
        folder.mkdir()
        (folder / name).write_text("value = 1\n")
        seen.append(content(folder))

    assert seen[0] != seen[1]


def test_a_folder_that_is_no_repository_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "peft").mkdir()
    (tmp_path / "peft" / "__init__.py").write_text("__version__: str = '0.15.2'\n")
    found = read_checkout(tmp_path)

    assert (found.package, found.root, found.standing.commit) == ("peft", tmp_path, "")
    assert found.version == f"0.15.2+gdirty{content(tmp_path / 'peft')}"


def test_a_folder_that_a_repository_ignores_is_not_known_by_its_commit(clone: Path) -> None:
    (clone / ".gitignore").write_text("copy/\n")
    git(clone, "commit", "--all", "--quiet", "--message=Ignore a copy")
    (clone / "copy" / "peft").mkdir(parents=True)
    (clone / "copy" / "peft" / "__init__.py").write_text("__version__ = '0.15.2'\n")

    assert read_checkout(clone / "copy").standing.content == content(clone / "copy" / "peft")


def test_its_environment_is_that_of_the_release_but_for_the_package(clone: Path) -> None:
    base = environment("4.50.3", accelerate="1.6.0")
    checkout = read_checkout(clone)
    found = checkout.within(base)
    commit = git(clone, "rev-parse", "HEAD")[:12]

    assert (found.name, found.source) == (f"4.50.3@{commit}", Source.INTERPRETER)
    assert found.pins == {**base.pins, "transformers": f"4.51.0.dev0+g{commit}"}
    assert found.digest != base.digest


def test_an_edit_of_a_source_is_seen_and_a_compiled_file_is_none(clone: Path) -> None:
    package = clone / "src" / "transformers"
    before = marks(package)
    (package / "__pycache__" / "more.cpython-311.pyc").write_bytes(b"compiled")
    unchanged = marks(package)
    (package / "part.py").write_text("value = 3\n")

    assert (unchanged == before, marks(package) == before) == (True, False)


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"src/diffusers/__init__.py": INIT},
        {"transformers/__init__.py": INIT, "peft/__init__.py": INIT},
    ],
)
def test_any_other_folder_is_refused(made: dict[str, str], tmp_path: Path) -> None:
    for name, text in made.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(RunnerError) as caught:
        read_checkout(tmp_path)

    assert [fault.where for fault in caught.value.faults] == [str(tmp_path)]


@pytest.mark.parametrize(
    ("init", "key"),
    [
        ("", "__version__"),
        ("__version__ = version()\n", "__version__"),
        ("__version__ = 'newest'\n", "__version__"),
        ("def (\n", "line 1"),
    ],
)
def test_a_package_without_a_version_is_refused(init: str, key: str, tmp_path: Path) -> None:
    (tmp_path / "peft").mkdir()
    (tmp_path / "peft" / "__init__.py").write_text(init)
    with pytest.raises(RunnerError) as caught:
        read_checkout(tmp_path)

    (fault,) = caught.value.faults
    assert str(fault).startswith(f"{tmp_path}/peft/__init__.py: {key}: ")


def test_main_of_a_folder_is_its_sources_in_what_they_declare(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROMATRIX_MAIN", str(clone))
    checkout = main_checkout()
    assert checkout is not None
    base, needs = environment("4.50.3"), checkout.declared

    class Home:
        def environment(self, declared: object, extras: object) -> tuple[object, object]:
            assert (declared, extras) == (needs, ("timm",))
            return base, None

    built, _ = build_main_checkout(Home(), checkout, "main+timm")  # type: ignore[arg-type]

    assert (built.name, built.source) == ("main+timm", Source.MAIN)
    assert built.pins == {**base.pins, "transformers": checkout.version}


def test_main_of_a_requirement_is_no_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROMATRIX_MAIN", "git+https://example.org/transformers@main")
    assert main_checkout() is None
    monkeypatch.delenv("REPROMATRIX_MAIN")
    assert main_checkout() is None


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("https://github.com/owner/transformers.git", "owner/transformers"),
        ("git@github.com:owner/transformers", "owner/transformers"),
        ("/home/me/transformers", ""),
        ("", ""),
    ],
)
def test_a_repository_is_named_by_the_address_of_its_host(
    clone: Path, address: str, named: str
) -> None:
    if address:
        git(clone, "remote", "add", "origin", address)

    assert repository_of(clone) == named
