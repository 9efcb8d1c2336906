"""Programs that a test starts: whatever becomes of the test, they end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

PATIENCE = 60.0
"""Seconds after which a test waits in vain: a busy machine is many times as slow."""


def finished(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    given: str | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return what it printed."""
    return subprocess.run(
        command, cwd=cwd, env=env, input=given, capture_output=True, text=True, check=check
    )


@contextlib.contextmanager
def started(
    command: Sequence[str | Path],
    **options: Any,  # noqa: ANN401 - those of Popen
) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a session of its own, which has to end within the block or soon after.

    `with Popen(...)` alone waits without a limit, also for a program that only goes on since an
    assertion in the block failed. Where the block fails, its whole group is killed.
    """
    with subprocess.Popen(command, text=True, start_new_session=True, **options) as program:
        try:
            yield program
            program.wait(timeout=PATIENCE)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            raise


def ignoring_sigint(command: Sequence[str | Path]) -> list[str | Path]:
    """Return a command started as a script starts `command &`: its SIGINT is ignored."""
    return ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]


def wait_until(true: Callable[[], object]) -> None:
    """Wait for what other processes do; raises AssertionError where it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {PATIENCE:g} s"
        time.sleep(0.05)
