"""Bounds of one cell: its process tree, its memory, and the sweep behind it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_TRIES = 100  # a killed process takes a moment to be gone
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None


def unenforceable() -> list[str]:
    """Name what cannot be bounded on this machine."""
    if _LINUX:
        return []
    return ["memory of a cell", "processes that leave their cell's group"]


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none escapes."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)


def interrupt_with_parent(parent: int) -> None:
    """Ask the kernel for a SIGTERM when our parent ends; only if it is who we think it is."""
    if _libc is not None and os.getppid() == parent:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def threads() -> int:
    """Return the number of operating-system threads of this process; 1 where it cannot be known."""
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - pathlib costs more per fork
    except OSError:
        return 1


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []
    found: list[int] = []
    for task in tasks:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:  # noqa: PTH123
            found.extend(int(child) for child in file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return every process below a process, nearest first."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found.extend(children(child))
    return found


def resident(pid: int) -> int:
    """Return the resident memory of one process in bytes; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def kill(pids: list[int]) -> None:
    """Kill processes that may already be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_group(leader: int) -> None:
    """Kill the process group of a cell, whose leader is not reaped yet, and all below it."""
    below = descendants(leader)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    kill(below)


def sweep(spared: set[int]) -> None:
    """Kill and reap every adopted orphan, with all below it.

    `spared` are the processes of cells that are still running. Repeated until nothing is left,
    because a process may fork while it is being killed.
    """
    while True:
        left = [child for child in children(os.getpid()) if child not in spared]
        if not left:
            return
        for child in left:
            kill([child, *descendants(child)])
        for child in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def end_strays(folder: str) -> None:
    """Kill every process whose environment names a folder: what nobody is left to sweep."""
    for _ in range(_TRIES):
        found = [pid for pid in _processes() if _names(pid, folder)]
        if not found:
            return
        kill(found)
        time.sleep(0.01)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _names(pid: int, folder: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return os.fsencode(folder) in file.read()
    except OSError:
        return False
