"""What a cell has on the disk: how much it is, whether there is room, and its removal.

Any number of files at any depth.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
REASON = "the disk of the cells' folders was full"
_ROOM = 64 << 10
_WORDS = tuple(os.strerror(number) for number in sorted(FULL))


def is_full(folder: str) -> bool:
    """Say whether next to nothing can be written in a folder any more."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    # What is reserved for root is room for root.
    free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return free * found.f_frsize < _ROOM or bool(found.f_files and not found.f_ffree)


def is_told(text: str) -> bool:
    """Say whether an error speaks of a full disk: what it wrote may be removed by now."""
    return any(words in text for words in _WORDS)


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

    def is_above(self, limit: int) -> bool:
        """Go on counting; say whether so many bytes were found."""
        now = time.monotonic()
        if self._count is None:
            if now < self._next:
                return False
            self._count, self.found = _sizes(self.folder), 0
        for size in self._count:
            self.found += size
            if self.found > limit or time.monotonic() > now + _SPELL:
                return self.found > limit
        self._count, self._next = None, time.monotonic() + _PAUSE
        return False


def _sizes(folder: str) -> Iterator[int]:
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it is gone
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(about.st_mode):
                        waiting.append(entry.path)
                    yield about.st_blocks * _BLOCK // max(1, about.st_nlink)


def remove(folder: str) -> None:
    """Remove a folder and all that is in it; what cannot be removed stays."""
    inside = [entry.path for entry in _entries(folder) if _is_left(entry)]
    moved, number = os.path.join(folder, secrets.token_hex(8)), 0  # noqa: PTH118 - once per cell
    while inside:
        inner = inside.pop()
        for entry in _entries(inner):
            if _is_left(entry):
                number += 1
                above = f"{moved}-{number}"
                with contextlib.suppress(OSError):
                    os.chmod(entry.path, 0o700)  # noqa: PTH101 - what is moved must be ours to write
                    os.rename(entry.path, above)  # noqa: PTH104
                    inside.append(above)
        _leave(inner)
    _leave(folder)


def empty(folder: str) -> None:
    """Remove what is in a folder, or what stands in its place; the folder is there then."""
    with contextlib.suppress(OSError):
        os.unlink(folder)  # noqa: PTH108 - a link to elsewhere
    remove(folder)
    with contextlib.suppress(OSError):
        os.mkdir(folder)  # noqa: PTH102


def has_something(folder: str) -> bool:
    """Say whether a folder is no empty folder."""
    try:
        return os.path.islink(folder) or bool(os.listdir(folder))  # noqa: PTH114, PTH208
    except OSError:
        return True


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    if os.path.islink(folder):  # noqa: PTH114 - put in its place, to somebody else's files
        return
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101 - a case may have locked it
        with os.scandir(folder) as found:
            yield from found


def _is_left(entry: os.DirEntry[str]) -> bool:
    """Remove what is no folder, and say whether it is one."""
    with contextlib.suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            return True
        os.unlink(entry.path)  # noqa: PTH108
    return False


def _leave(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # noqa: PTH106
