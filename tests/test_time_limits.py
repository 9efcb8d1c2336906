"""No test runs for ever: each has a limit, and shows where it stood."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from fakes import processes_of
from limits import LONGER
from programs import started

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

HANGS = """
import threading, time

def waits_in_a_thread():
    time.sleep(600)

def test_hangs():
    threading.Thread(target=waits_in_a_thread, daemon=True).start()
    time.sleep(600)

def test_is_run_nevertheless():
    pass
"""

DIES = """
import os, pathlib, signal

def test_dies():
    if not pathlib.Path(__file__).with_name("died").exists():
        pathlib.Path(__file__).with_name("died").touch()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGALRM)
"""


def test_a_test_that_hangs_is_ended_with_the_stacks_of_all_threads(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    own = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}"]
    limited = ["-o", "timeout=2", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *own, *limited, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "Failed: Timeout (>2.0s) from pytest-timeout." in done.stdout
    assert "test_hangs.py:9: Failed" in done.stdout
    assert "in waits_in_a_thread" in done.stdout


def test_the_test_in_which_a_process_dies_is_named_with_its_signal(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    (tmp_path / "test_dies.py").write_text(DIES)
    own = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}"]
    command = [sys.executable, "-m", "pytest", *own, "-n", "1", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert (
        "test_dies.py::test_dies: the process of this test ended with signal SIGALRM."
        in done.stderr
    )


def test_every_test_has_a_limit_and_a_longer_one_where_something_is_built(
    request: pytest.FixtureRequest,
) -> None:
    shorter = float(request.config.getini("timeout"))
    limits = {marker: set[float]() for marker in (*LONGER, "")}
    for item in request.session.items:
        found = item.get_closest_marker("timeout")
        kinds = [one.name for one in item.iter_markers() if one.name in LONGER]
        for kind in kinds or [""]:
            limits[kind].add(found.args[0] if found else shorter)

    assert limits[""] == {shorter}
    assert 0 < shorter < min(LONGER.values())
    assert all(least >= LONGER[kind] for kind, found in limits.items() for least in found if kind)


def test_a_program_beside_a_test_that_fails_is_killed(tmp_path: Path) -> None:
    begin = time.monotonic()
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(AssertionError), started(command, env={"MARK": str(tmp_path)}):
        raise AssertionError

    assert processes_of(tmp_path) == []
    assert time.monotonic() - begin < 60
