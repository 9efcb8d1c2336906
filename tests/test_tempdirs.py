"""Folders for what is needed only now: swept once their users are dead, and never before."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes import is_alive, processes_of
from programs import PATIENCE, started, wait_until

from repromatrix.runner.paths import ROOT
from repromatrix.runner.tempdirs import TempDir, scratch, sweep
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = """
import subprocess, sys, tempfile, time
from repromatrix.runner.tempdirs import TempDir
tempfile.tempdir = sys.argv[1]
one = TempDir()
(one.folder / "litter").write_text("left behind")
below = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(below, env={"HOME": str(one.folder)}, start_new_session=True,
    stdout=subprocess.DEVNULL)
print(one.folder, child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def user(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """Start a process that uses a folder, with another below it that is in a session of its own."""
    with started(
        [sys.executable, "-c", USER, temporary],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        folder, pid = process.stdout.readline().split()
        try:
            yield process, Path(folder), int(pid)
        finally:
            if is_alive(int(pid)):
                os.kill(int(pid), signal.SIGKILL)


def test_what_a_killed_run_left_is_swept_with_what_still_runs_there(temporary: Path) -> None:
    with user(temporary) as (process, folder, below):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (folder.exists(), is_alive(below)) == (True, True)

        sweep()

        assert list(temporary.iterdir()) == []
        wait_until(lambda: not processes_of(folder))  # the killed go when they get a core


def test_what_began_just_now_is_ended_before_its_environment_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        folder = str(tmp_path / f"folder-{number}")
        with started(["sleep", "600"], env={"HOME": folder}) as process:
            # To look through all others first would give it the time that it needs.
            monkeypatch.setattr(process_control, "_processes", lambda one=process.pid: [one])
            process_control.end_strays(folder)

            assert process.wait(timeout=PATIENCE) == -signal.SIGKILL


def test_what_is_in_use_is_not_swept(temporary: Path) -> None:
    with user(temporary) as (process, folder, below):
        mine = TempDir()
        sweep()

        assert (folder / "litter").read_text() == "left behind"
        assert is_alive(below)
        assert sorted(temporary.iterdir()) == sorted([folder, mine.folder])
        process.kill()
        process.wait()
        mine.remove()
        sweep()


def test_a_folder_of_another_name_is_nobodys_business_of_ours(temporary: Path) -> None:
    other = temporary / "repromatrix-x1"
    other.mkdir()
    sweep()

    assert list(temporary.iterdir()) == [other]


def test_a_folder_is_gone_after_its_block_and_after_being_removed_twice(temporary: Path) -> None:
    with scratch() as folder:
        assert list(temporary.iterdir()) == [folder]
    one = TempDir()
    one.remove()
    one.remove()

    assert list(temporary.iterdir()) == []


def test_nobody_loses_a_folder_to_those_who_sweep_meanwhile() -> None:
    """Between its making and its locking a folder looks like one of the dead."""
    until = time.monotonic() + 1
    lost: list[Path] = []

    def work() -> None:
        while time.monotonic() < until:
            with scratch() as folder:
                (folder / "mine").touch()
                sweep()
                if not (folder / "mine").exists():
                    lost.append(folder)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lost == []
