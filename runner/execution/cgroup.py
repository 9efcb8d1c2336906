"""A group of the system in which the processes of a worker are counted, where one can be made.

What forks faster than a worker looks cannot take more of the machine than the group may have.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from repromatrix.runner import subprocesses
from repromatrix.runner.worker import process_control
from repromatrix.runner.worker.sandbox import TASKS

_PREFIX = "repromatrix-"
_TRIES = 500  # the last process takes a moment to be gone
_numbers = itertools.count()


class Cgroup:
    """A group for one worker; close it when the worker has ended. Without a folder it is none."""

    def __init__(self, folder: Path | None) -> None:
        """Open its entrance: who writes 0 there is in."""
        self.folder = folder
        self.listing = str(folder / "cgroup.procs") if folder else ""
        self.entrance = os.open(self.listing, os.O_WRONLY) if folder else -1

    @property
    def inherited(self) -> list[int]:
        """Return what a worker needs to enter it."""
        return [self.entrance] if self.folder else []

    def close(self) -> None:
        """End what is left in it, and remove it."""
        if self.folder is None:
            return
        os.close(self.entrance)
        for _ in range(_TRIES):
            if _removed(self.folder):
                break
            process_control.end_every(self._processes)
            time.sleep(0.02)
        self.folder = None

    def _processes(self) -> list[int]:
        try:
            found = map(int, Path(self.listing).read_text(encoding="utf-8").split())
        except OSError:
            return []
        return [pid for pid in found if pid]  # 0 is who has no number here


def group() -> Cgroup:
    """Make a group where this machine lets us; else return one that bounds nothing."""
    return _opened(_made() if can_count() else None)


def _opened(folder: Path | None) -> Cgroup:
    try:
        return Cgroup(folder)
    except OSError:  # it is gone, or is not ours to enter
        if folder is not None:
            _removed(folder)
        return Cgroup(None)


@functools.cache
def can_count() -> bool:
    """Say whether a group can be made and entered here; what killed runs left is removed."""
    for parent in _parents():
        for left in parent.glob(f"{_PREFIX}*"):
            if not Path("/proc", left.name.split("-")[1]).exists():
                _removed(left)
    folder = _made()
    if folder is None:
        return False
    with contextlib.closing(_opened(folder)) as one:
        if one.folder is None:
            return False
        command = ["sh", "-c", 'echo 0 > "$0"', one.listing]
        return subprocesses.finish(command, seconds=10).code == 0


def _made() -> Path | None:
    """Return a new group that counts; nothing where there can be none."""
    for parent in _parents():
        folder = parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                (folder / "pids.max").write_text(str(TASKS), encoding="utf-8")
            except OSError:
                folder.rmdir()
            else:
                return folder
    return None


def _parents(me: Path = Path("/proc/self")) -> Iterator[Path]:
    """Yield where a group may be made: below our own, else beside one that bounds nothing."""
    with contextlib.suppress(OSError, ValueError):
        own = [
            line.split(":", 2) for line in (me / "cgroup").read_text(encoding="utf-8").splitlines()
        ]
        for _, names, path in own:
            for root, top in _mounted(names, me / "mountinfo"):
                with contextlib.suppress(ValueError):
                    here = top / Path(path).relative_to(root)
                    yield here
                    if here != top and not names and not _bounds(here):
                        yield here.parent


def _mounted(names: str, mounts: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the root and the place of a hierarchy that counts processes: the new, or the old."""
    if names and "pids" not in names.split(","):
        return
    for line in mounts.read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        old = kind == "cgroup" and "pids" in options.split(",")
        if old if names else kind == "cgroup2":
            root, place = left.split()[3:5]
            yield Path(root), Path(place)


def _bounds(folder: Path) -> bool:
    """Say whether a group bounds memory or processors: who leaves it would have more of them."""
    for name in ("memory.max", "memory.high", "cpu.max"):
        with contextlib.suppress(OSError):
            if not (folder / name).read_text(encoding="utf-8").startswith("max"):
                return True
    with contextlib.suppress(OSError):
        return bool((folder / "cpuset.cpus").read_text(encoding="utf-8").strip())
    return False


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
