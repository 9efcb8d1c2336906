"""What cells leave is removed, whatever it is, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repromatrix.runner.worker import cleanup

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder to be removed, with a neighbour that must stay."""
    (tmp_path / "neighbour").mkdir()
    (tmp_path / "neighbour" / "kept").write_text("kept")
    (tmp_path / "left").mkdir()
    return tmp_path / "left"


def remaining(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder.parent)) for path in folder.parent.rglob("*"))


def deepen(folder: Path, levels: int) -> None:
    """Make folders within folders, deeper than a path can be long."""
    held = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=held)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=held))
        inner = os.open("d", os.O_RDONLY, dir_fd=held)
        os.close(held)
        held = inner
    os.close(held)


def test_folders_deeper_than_any_path_are_removed(folder: Path) -> None:
    deepen(folder, 1_500)

    cleanup.remove(str(folder))

    assert remaining(folder) == ["neighbour", "neighbour/kept"]


def test_links_are_removed_and_not_followed(folder: Path) -> None:
    (folder / "deep").mkdir()
    for where in (folder, folder / "deep"):
        (where / "out").symlink_to(folder.parent / "neighbour")
        (where / "nowhere").symlink_to("/nowhere/at/all")

    cleanup.remove(str(folder))

    assert remaining(folder) == ["neighbour", "neighbour/kept"]


def test_a_link_in_the_place_of_the_folder_itself_leads_to_nobody_else_s_files(
    folder: Path,
) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.parent / "neighbour")

    cleanup.remove(str(folder))

    assert remaining(folder) == ["left", "moved", "neighbour", "neighbour/kept"]


def test_what_cells_share_is_an_empty_folder_again_whatever_a_case_put_there(
    folder: Path,
) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "settings").write_text("mixed_precision: fp16")
    found = [cleanup.has_something(str(folder))]
    cleanup.empty(str(folder))
    found.append(cleanup.has_something(str(folder)))
    folder.rmdir()
    folder.symlink_to(folder.parent / "neighbour")
    found.append(cleanup.has_something(str(folder)))
    cleanup.empty(str(folder))
    found.append(cleanup.has_something(str(folder)))
    folder.rmdir()
    found.append(cleanup.has_something(str(folder)))
    cleanup.empty(str(folder))

    assert found == [True, False, True, False, True]
    assert remaining(folder) == ["left", "neighbour", "neighbour/kept"]
    assert not folder.is_symlink()


def test_locked_folders_are_removed_by_those_who_own_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    lines = (
        "import os, sys",
        f"sys.path.insert(0, {str(ROOT)!r})",
        "from repromatrix.runner.worker import cleanup",
        f"os.geteuid() or os.setuid({NOBODY})",  # to root nothing is locked
        "os.makedirs('left/a/b/c')",
        "for name in ('left/a/b/c', 'left/a/b', 'left/a', 'left'): os.chmod(name, 0)",
        "cleanup.remove('left')",
        "print(os.listdir())",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")
