"""Folders for what is needed only now; what a killed run left is removed by the next one.

Each is locked by whoever uses it, so that none is removed that is in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from repromatrix.runner.worker import cleanup, process_control

_PREFIX = "repromatrix-run-"


class TempDir:
    """An empty folder of our own; whoever makes one removes what the dead have left."""

    def __init__(self, within: str | None = None) -> None:
        """Make it, where folders for temporary files are or in another folder.

        Its lock is freed by the kernel, too, when we are killed.
        """
        sweep(within)
        while True:
            self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
            # Until it is locked it looks like one that nobody uses: one that another process
            # sweeps away in between is given up.
            lock = _opened(self.folder)
            if lock is None:
                continue
            if process_control.hold(lock) and self.folder.exists():
                self._lock = lock
                return
            os.close(lock)

    def remove(self) -> None:
        """Remove it with all that is in it, once."""
        if self._lock >= 0:
            cleanup.remove(str(self.folder))
            os.close(self._lock)
            self._lock = -1


@contextlib.contextmanager
def scratch(within: str | None = None) -> Iterator[Path]:
    """Yield an empty folder for the length of a block."""
    one = TempDir(within)
    try:
        yield one.folder
    finally:
        one.remove()


def sweep(within: str | None = None) -> None:
    """Remove the folders that nobody uses any more, and end what still runs in them."""
    for folder in Path(within or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = _opened(folder)
        if lock is None:
            continue
        # Where no lock can be had it cannot be known whether somebody uses it: it stays.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            process_control.end_strays(str(folder))
            cleanup.remove(str(folder))
        os.close(lock)


def _opened(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone meanwhile, or somebody else's
        return None
