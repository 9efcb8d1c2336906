"""What a disk refuses is said, and what stood there before stands there still."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from repromatrix.runner import files
from repromatrix.runner.errors import Interrupted, Problem
from repromatrix.runner.files import REMEDY, UnwritableError
from repromatrix.runner.signals import Interruption
from repromatrix.runner.worker import cleanup


def _sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("it says so")
    error.sqlite_errorcode, error.sqlite_errorname = code, "SQLITE_SO"
    return error


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (OSError(errno.ENOSPC, ""), "no space is left on its disk"),
        (OSError(errno.EROFS, ""), "its file system is read-only"),
        (_sqlite(sqlite3.SQLITE_FULL), "no space is left on its disk (SQLITE_SO)"),
        (
            _sqlite(sqlite3.SQLITE_IOERR_SHMSIZE),
            "its disk fails, or has no space left (SQLITE_SO)",
        ),
    ],
)
def test_what_a_disk_refuses_is_said_with_its_place(error: Exception, found: str) -> None:
    expected = Problem("evidence.sqlite", found, REMEDY)
    refused = files.unwritable("evidence.sqlite", error)
    assert refused is not None

    assert (expected,) == refused.faults


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ECONNRESET, ""),
        sqlite3.OperationalError("no such table"),
        _sqlite(sqlite3.SQLITE_CORRUPT),
        ValueError("no space left on its disk"),
    ],
)
def test_other_errors_are_not_taken_for_the_disks(error: Exception) -> None:
    assert files.unwritable("evidence.sqlite", error) is None


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    old = tmp_path / "a"
    old.write_text("old")
    with pytest.raises(UnwritableError):
        files.write_all({old: "new", tmp_path / ("b" * 300): "new"})

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def write_and_wait(texts: dict[Path, str]) -> None:
    files.write_all(texts)
    time.sleep(10)


def test_an_interruption_while_files_take_their_places_comes_behind_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / name for name in "abc"]
    replace = Path.replace

    def replaced(draft: Path, path: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        return replace(draft, path)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    monkeypatch.setattr(Path, "replace", replaced)
    signal.signal(signal.SIGINT, Interruption())
    try:
        with pytest.raises(Interrupted):
            write_and_wait(dict.fromkeys(places, "new"))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert sorted(tmp_path.iterdir()) == places


def test_what_is_written_takes_the_place_of_the_old_and_leaves_nothing_beside(
    tmp_path: Path,
) -> None:
    files.write(tmp_path / "folder" / "a", "old")
    files.write(tmp_path / "folder" / "a", "new\r\n")

    found = {path.name: path.read_bytes() for path in (tmp_path / "folder").iterdir()}
    assert found == {"a": b"new\r\n"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[Errno 28] No space left on device: 'eaten'", True),
        ("unable to write to file </torch_1>: No space left on device (28)", True),
        ("expected m1 and m2 to have the same dtype", False),
    ],
)
def test_an_error_of_a_full_disk_is_known_by_its_words(text: str, *, told: bool) -> None:
    assert cleanup.is_told(text) is told
