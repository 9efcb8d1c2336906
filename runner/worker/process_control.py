"""Control a cell's process tree: list it, measure its memory, end it, reap it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_TRIES = 100  # a killed process takes a moment to be gone
_MOMENT = 0.0005
_ENV_END = 51 - 3  # 0 until a process has its environment, be that empty
_PAGE = os.sysconf("SC_PAGE_SIZE")
MAXRSS_UNIT = 1024 if _LINUX else 1
"""Bytes in what `getrusage` counts the resident memory in."""
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None
# Looked up now: between a fork and what it starts nothing may be looked up.
_prctl = _libc.prctl if _libc is not None else None


def unenforceable() -> list[str]:
    """Name what cannot be bounded on this machine."""
    return [] if _LINUX else ["memory of a cell", "processes that leave their cell's group"]


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none escapes."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_at_end_of_parent(number: int) -> None:
    """Ask the kernel for a signal when our parent ends; 0 takes that back.

    A parent that has ended before is not noticed.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends."""
    signal_at_end_of_parent(signal.SIGKILL)
    if _prctl is not None and os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def has_ended(pid: int) -> bool:
    """Say whether a process runs no more, be it that nobody has awaited it yet."""
    state = _state(pid)
    return state in {"Z", "X"} if state else _LINUX


def _state(pid: int) -> str:
    try:
        return _stat(pid)[0]
    except (OSError, IndexError):
        return ""


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5) from the third on: the second, a name, may hold anything."""
    with open(f"/proc/{pid}/stat", errors="replace", encoding="utf-8") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()


def hold(folder: int) -> bool:
    """Keep an open folder from being swept as long as this process lives; say whether it is kept.

    Shared: the runner and its worker hold the same one.
    """
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:  # where no locks are to be had, nobody sweeps either
        return not isinstance(error, BlockingIOError)
    return True


def waited(pid: int) -> float:
    """Return the seconds for which the first thread of a process was ready and had no core.

    Linux counts them (sched-stats of its documentation); 0 elsewhere, and once it is gone.
    """
    try:
        with open(f"/proc/{pid}/schedstat", encoding="utf-8") as file:  # noqa: PTH123
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def tasks(pid: int | str) -> int:
    """Return the number of threads of a process; 0 when it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - pathlib costs more per look
    except OSError:
        return 0


def threads() -> int:
    """Return the number of operating-system threads of this process; 1 where it cannot be known."""
    return tasks("self") or 1


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []
    found: list[int] = []
    for task in tasks:
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file,  # noqa: PTH123
        ):
            found.extend(int(child) for child in file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return every process below a process, nearest first."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found.extend(children(child))
    return found


def adopted(session: int, family: set[int]) -> list[int]:
    """Return our own children that came from a cell: of its session, or seen in it before."""
    return [
        pid
        for pid in children(os.getpid())
        if pid != session and (pid in family or _session(pid) == session)
    ]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def resident(pid: int) -> int:
    """Return the resident memory of one process in bytes; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def is_stopped(pid: int) -> bool:
    """Say whether somebody stopped a process, so that it neither ends nor answers."""
    return _state(pid) in {"T", "t"}


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Kill processes that may already be gone, or send them another signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_tree(tops: list[int]) -> None:
    """Kill processes and all below them."""
    end_every(lambda: [pid for top in tops for pid in (top, *descendants(top))])


def end_every(listed: Callable[[], Iterable[int]]) -> None:
    """Kill what is listed, again and again.

    They are stopped first, until no other one appears: what forks faster than it is killed would
    go on for ever, and what is stopped forks no more.
    """
    stopped: dict[int, None] = {}
    while True:
        found = [pid for pid in listed() if pid not in stopped]
        if not found:
            kill(stopped)
            return
        kill(found, signal.SIGSTOP)
        stopped.update(dict.fromkeys(found))


def end_group(leader: int) -> None:
    """Kill the process group of a cell or a worker, whose leader is not reaped yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def sweep(spared: set[int]) -> None:
    """Kill and reap every adopted orphan, with all below it.

    `spared` are the processes of cells that are still running. Repeated until nothing is left,
    because a process may fork while it is being killed.
    """
    while True:
        left = [child for child in children(os.getpid()) if child not in spared]
        if not left:
            return
        end_tree(left)
        # In no order of ours: the first process of a room ends after all others are reaped.
        reaped = [child for child in left if _reaped(child)]
        if not reaped:
            time.sleep(_MOMENT)


def _reaped(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def end_strays(folder: str) -> None:
    """Kill every process whose environment names a folder: what nobody is left to sweep."""
    end_those(lambda pid: _names(pid, folder))


def end_those(meant: Callable[[int], bool | None]) -> None:
    """Kill what is meant, and ask again while there is any, or somebody of whom it is not known."""
    for _ in range(_TRIES):
        answers = {pid: meant(pid) for pid in _processes()}
        found = [pid for pid, is_meant in answers.items() if is_meant]
        if not found and None not in answers.values():
            return
        kill(found)
        time.sleep(0.01)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _names(pid: int, folder: str) -> bool | None:
    """Say whether the environment of a process names a folder; None while it is not known yet.

    The kernel closes the descriptors of a process that begins a program, by which its parent
    knows, before it gives it an environment; on a busy machine long before.
    """
    try:
        environ = _environ(pid)
        if not environ:
            os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - the dead and the kernel's own have none
            if int(_stat(pid)[_ENV_END]) == 0:
                return None
            environ = _environ(pid)  # it may have come meanwhile
    except (OSError, IndexError):
        return False
    return os.fsencode(folder) in environ


def _environ(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        return file.read()


def enter_group(entrance: int) -> None:
    """Enter the group of the system that counts us and all below us; -1 is none."""
    if entrance >= 0:
        with contextlib.suppress(OSError):
            os.write(entrance, b"0")
        os.close(entrance)


def below(listing: str, *, sandboxed: bool) -> set[int]:
    """Return all processes below this one, by the file that lists those of its group if it has one.

    In a sandbox /proc is ours alone, and the group is not seen.
    """
    own = os.getpid()
    if sandboxed:
        return {*_processes()} - {own}
    if listing:
        with contextlib.suppress(OSError), open(listing, encoding="utf-8") as file:  # noqa: PTH123
            return {int(line) for line in file.read().split()} - {own, 0}
    return set(descendants(own))
