"""How much of the disk a cell takes: the files in its folder, and those that only it holds open."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PAUSE = 0.5
"""Seconds between two counts."""
_SPELL = 0.005
"""Seconds for which no cell is looked after."""
_BLOCK = 512
"""Bytes of a block, whatever the file system."""


class DiskUse:
    """Counts bit by bit what is in a folder: a million files must not keep a worker from its cells.

    What lies under a path that is too long for the system is not counted.
    """

    def __init__(self, folder: str) -> None:
        """Count nothing yet."""
        self.folder = folder
        self.found = 0
        self._count: Iterator[int] | None = None
        self._next = time.monotonic() + _PAUSE

    def is_above(self, limit: int, pids: Iterable[int]) -> bool:
        """Go on counting; say whether so many bytes were found. `pids` are the cell's processes."""
        now = time.monotonic()
        if self._count is None:
            if now < self._next:
                return False
            self._count, self.found = _sizes(self.folder, pids), 0
        for size in self._count:
            self.found += size
            if self.found > limit or time.monotonic() > now + _SPELL:
                return self.found > limit
        self._count, self._next = None, time.monotonic() + _PAUSE
        return False


def _sizes(folder: str, pids: Iterable[int]) -> Iterator[int]:
    """Yield what each file takes, in bytes."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it is gone
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(about.st_mode):
                        waiting.append(entry.path)
                    yield about.st_blocks * _BLOCK // max(1, about.st_nlink)
    yield from _nameless(os.lstat(folder).st_dev, pids)


def _nameless(device: int, pids: Iterable[int]) -> Iterator[int]:
    """Yield what files take that were removed and are still open, each once."""
    seen: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - pathlib is not needed otherwise
                with contextlib.suppress(OSError):
                    about = os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116
                    is_file = stat.S_ISREG(about.st_mode) and about.st_dev == device
                    if is_file and not about.st_nlink and about.st_ino not in seen:
                        seen.add(about.st_ino)
                        yield about.st_blocks * _BLOCK
