"""A load that takes a processor, memory and the disk by turns, until whoever started it ends."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time

from repromatrix.runner.worker import process_control

_TURN = (5.0, 30.0)
"""Seconds for which one of them is taken."""
_MEMORY, _FILE, _CHUNK = 1 << 30, 256 << 20, 1 << 20
_PAGE = 4096
_SHARE = 8
"""At most this part of the memory that is free."""


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


def main() -> None:
    """Take turns, drawn by the seed in the first argument; the second is whom to end with."""
    process_control.die_with_parent(int(sys.argv[2]))
    drawn = random.Random(int(sys.argv[1]))
    while True:
        drawn.choice((processor, memory, disk))(time.monotonic() + drawn.uniform(*_TURN))


if __name__ == "__main__":
    main()
