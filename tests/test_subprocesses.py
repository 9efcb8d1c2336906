"""Programs started, and what may be said of what they said."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from fakes import is_alive, processes_of
from programs import PATIENCE, started, wait_until

from repromatrix.runner import subprocesses
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import Answering, Finished, anonymous, finish

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at https://user:secret@example.org/simple/x.whl too", "at <address> too"),
        ("git+ssh://git@example.org/x.git@main", "<address>"),
        ("git+file:///home/me/x@main", "<address>"),
        ("fatal: '/nonexistent' is no repository", "fatal: '<path>' is no repository"),
        ("in /home/me/x.py:3", "in <path>:3"),
        ("(/home/my name/x/)", "(<path>)"),
        ("Could not resolve host: git.example.org", "Could not resolve host: <host>"),
        ("the host has no torch.nn", "the host has no torch.nn"),
        ("cos/sin of 1/2 and/or <b>x</b> / y", "cos/sin of 1/2 and/or <b>x</b> / y"),
    ],
)
def test_addresses_and_paths_are_taken_out(text: str, expected: str) -> None:
    assert expected == anonymous(text)


def test_a_program_is_run_to_its_end() -> None:
    code = "import sys; print('out', sys.stdin.read()); sys.exit('err')"

    assert finish([sys.executable, "-c", code]) == Finished(code=1, out="out \n", err="err\n")


def test_a_program_that_does_not_exist_is_no_accident_of_ours() -> None:
    found = finish(["no-such-program"])

    assert found == Finished(code=127, out="", err="no-such-program: no such program")


def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """The output of the program stays open as long as somebody holds it: its end is theirs."""
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "time.sleep(600)\n"
    )
    (tmp_path / "starts.py").write_text(code)
    begin = time.monotonic()

    found = finish([sys.executable, tmp_path / "starts.py"], seconds=1)

    assert found == Finished(code=None, out="", err="no answer within 1 s")
    assert time.monotonic() - begin < 30


def test_a_command_does_not_outlive_an_interruption(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    told = tmp_path / "pid"
    # Not the alarm of the system: it is what limits the time of a test.
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(Interrupted):
            finish(["sh", "-c", f"echo $$ > {told}; exec sleep 600"])
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert not is_alive(int(told.read_text()))


def test_a_program_ends_when_we_are_killed(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    code = (
        "import os\n"
        "from repromatrix.runner.subprocesses import finish\n"
        f"finish({program!r}, environ={{**os.environ, 'MARK': {str(tmp_path)!r}}})\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with started([sys.executable, "-c", code], env=environ) as runner:
        wait_until(lambda: processes_of(tmp_path))
        (child,) = processes_of(tmp_path)
        runner.kill()

    wait_until(lambda: not is_alive(child))


ESCAPES = "import os, time; os.fork() or (os.setsid(), time.sleep(600)); time.sleep(600)"


def test_what_left_its_group_and_holds_its_output_is_not_waited_for(tmp_path: Path) -> None:
    begin = time.monotonic()
    found = finish([sys.executable, "-c", ESCAPES], environ={"MARK": str(tmp_path)}, seconds=1)
    lasted = time.monotonic() - begin
    for pid in processes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)

    assert found.code is None
    assert lasted < 30


def test_a_program_that_closes_its_answers_and_goes_on_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocesses, "_GRACE", 0.5)
    code = "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(600)"
    with contextlib.closing(Answering([sys.executable, "-c", code], b"", os.environ)) as asked:
        said = (list(asked.messages()), asked.failure())

    assert said == ([], "it ended with signal SIGKILL")


def test_a_lock_that_is_held_is_waited_for_and_taken_once_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as other:
        taken = [subprocesses.lock(first.fileno(), 0.5), subprocesses.lock(other.fileno(), 0.5)]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(subprocesses.lock, other.fileno(), 60)
            fcntl.flock(first, fcntl.LOCK_UN)
            taken.append(waiting.result(timeout=PATIENCE))
        with pytest.raises(BlockingIOError):
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert taken == [True, False, True]


def test_an_interruption_ends_the_wait_for_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as other, ThreadPoolExecutor(1) as pool:
        assert subprocesses.lock(first.fileno(), 1)
        waiting = pool.submit(subprocesses.lock, other.fileno(), 600)
        while not waiting.done():
            subprocesses.end_all()
            time.sleep(0.05)

    assert not waiting.result(timeout=0)
