"""A load that takes a processor, memory and the disk by turns, until whoever started it ends."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from repromatrix.runner.paths import ROOT
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TURN = (5.0, 30.0)
"""Seconds for which one of them is taken."""
_MEMORY, _FILE, _CHUNK = 1 << 30, 256 << 20, 1 << 20
_PAGE = 4096
_SHARE = 8
"""At most this part of the memory that is free."""
_GRACE = 30.0


def processor(until: float) -> None:
    """Compute."""
    while time.monotonic() < until:
        sum(range(10_000))


def memory(until: float) -> None:
    """Touch page after page of a large piece of memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    piece = bytearray(min(_MEMORY, free // _SHARE))
    while time.monotonic() < until:
        for number in range(0, len(piece), _PAGE):
            piece[number] = (piece[number] + 1) % 256


def disk(until: float) -> None:
    """Write and sync."""
    with tempfile.TemporaryFile() as file:
        while time.monotonic() < until:
            file.write(os.urandom(_CHUNK))
            os.fsync(file.fileno())
            if file.tell() >= _FILE:
                file.seek(0)


KINDS = {"processor": processor, "memory": memory, "disk": disk}


@contextlib.contextmanager
def loaded(
    seed: int, kinds: Sequence[str] = tuple(KINDS), folder: str = tempfile.gettempdir()
) -> Iterator[None]:
    """Load the machine for the length of a block, by a process for each core.

    They are one session, as what somebody builds in another terminal is: where the kernel shares
    processors among sessions (`sched_autogroup`), one each would take more than its part.
    """
    program = subprocess.Popen(
        [sys.executable, "-m", "drills.load", str(seed), str(os.getpid()), *kinds],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": folder},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    try:
        yield
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate(timeout=_GRACE)  # until the last of them has closed it


def main() -> None:
    """Take turns between KINDS, drawn by SEED, until PID ends: the arguments are SEED PID KINDS.

    There is a process for each core; they end together.
    """
    seed, pid, *kinds = sys.argv[1:]
    process_control.die_with_parent(int(pid))
    first, number = os.getpid(), (os.cpu_count() or 1) - 1
    while number and os.fork():
        number -= 1
    if number:
        process_control.die_with_parent(first)
    drawn = random.Random(int(seed) + number)
    while True:
        KINDS[drawn.choice(kinds)](time.monotonic() + drawn.uniform(*_TURN))


if __name__ == "__main__":
    main()
