"""Whether a cell had room to write: a disk that is full is the machine's doing, not the case's."""

from __future__ import annotations

import errno
import os

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
