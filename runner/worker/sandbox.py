"""Walls around a cell: namespaces in which it finds its own folder and processes, and no rights.

bubblewrap has made the outer ones: no network, a read-only system, and of the rest only what the
zygote was shown. The zygote shuts itself in once more (`enter`), so that not even the libraries
which it imports could undo that, and is the first process of a namespace in which it counts its
cells. Each cell has one of its own below that: it can name no other process, and all of it ends
at once with the first one there, however fast it forks.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import TypedDict

from repromatrix.runner.worker import process_control

# <linux/sched.h>, <linux/mount.h>, <linux/prctl.h>, <linux/capability.h>
_NEW_MOUNTS, _NEW_USER, _NEW_PIDS = 0x20000, 0x10000000, 0x20000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _EVERYWHERE = 32, 4096, 16384
_DROP_BOUND, _NO_NEW_RIGHTS, _CAPABILITIES = 24, 38, 0x20080522
_AMBIENT, _RAISE, _NICE = 47, 2, 23
_FOR_EVER = (1 << 31) - 1
_LIMITS = _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXEC

_FRESH = ("/tmp", "/dev/shm")  # noqa: S108 - what is mounted there is the cell's alone
_SIZE = "size=256m"
TASKS = max(1024, 64 * (os.cpu_count() or 1))
"""How many processes and threads all cells of a zygote may have, where the system counts them."""

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxRequest(TypedDict):
    """What the runner tells of the outer walls."""

    proc: int
    """A descriptor of the system's own /proc, by which we say who we are; then it is closed."""
    scratch: str
    """The zygote's own folder; a cell sees nothing of it but its own."""
    shown: list[str]
    """What lies where a cell gets fresh folders, and must stay to be seen."""
    kept: list[str]
    """What the zygote may write, and a cell may not."""


def enter(walls: SandboxRequest) -> None:
    """Go on as the first process of a namespace of our own; who called waits for its end."""
    process_control.die_with_outer()
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_PIDS), "namespaces")
    told = (
        ("self/setgroups", "deny"),
        ("self/uid_map", f"{user} {user} 1"),
        ("self/gid_map", f"{group} {group} 1"),
        # Nobody below makes another: in one of its own a cell would have rights again.
        ("sys/user/max_user_namespaces", "0"),
    )
    for name, text in told:
        file = os.open(name, os.O_WRONLY, dir_fd=walls["proc"])
        os.write(file, text.encode())
        os.close(file)
    os.close(walls["proc"])
    pid = os.fork()
    if pid:
        _relay(pid)
    process_control.die_with_outer()
    _mount("proc", "/proc", "proc", _LIMITS)
    _keep_a_right()


def _relay(pid: int) -> None:
    """Wait for the zygote and end as it ended; its pipes must be nobody's but its own."""
    os.closerange(3, 1 << 10)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    status = os.waitpid(pid, 0)[1]
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    os._exit(128 + ended if ended else os.WEXITSTATUS(status))


class SandboxFolders:
    """Makes the namespaces of cells, in the zygote."""

    def __init__(self, walls: SandboxRequest) -> None:
        """Remember our own namespace, to come back to."""
        self.walls = walls
        self.own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def open(self) -> int:
        """Let what is forked next be in new namespace; return its first process, which only waits.

        When that one ends, everything ends that is in there with it.
        """
        _check(_libc.unshare(_NEW_PIDS), "a namespace for processes")
        nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        command = ["sleep", str(_FOR_EVER)]
        try:
            return os.posix_spawnp("sleep", command, dict(os.environ), file_actions=nothing)
        except OSError:
            self.leave()
            raise

    def leave(self) -> None:
        """Let what is forked next be in the namespace of the zygote again."""
        _check(_libc.setns(self.own, _NEW_PIDS), "the way back")

    def shut(self, folder: str) -> None:
        """Leave this process, a cell, with its own folder, a read-only rest, and no rights."""
        _check(_libc.unshare(_NEW_MOUNTS), "a namespace for mounts")
        _furnish(self.walls, folder)
        _mount("proc", "/proc", "proc", _LIMITS)
        # The count is of our user namespace; it does not hold for root (see `engine.cgroup`).
        _, most = resource.getrlimit(resource.RLIMIT_NPROC)
        tasks = TASKS if most == resource.RLIM_INFINITY else min(TASKS, most)
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
        _drop_rights()


def _furnish(walls: SandboxRequest, folder: str) -> None:
    """Put fresh folders where cells write, and back into them what must be seen."""
    scratch = walls["scratch"]
    fresh = [*_FRESH, *([] if _is_below(scratch, _FRESH) else [scratch])]
    again = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in [*walls["shown"], folder]}
    for path in fresh:
        _mount("tmpfs", path, "tmpfs", _NO_SUID | _NO_DEVICES, _SIZE)
    for path, seen in again.items():
        source = f"/proc/self/fd/{seen}"
        if os.path.isdir(source):  # noqa: PTH112 - pathlib costs more per cell
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC))
        _mount(source, path, "", _BIND | _EVERYWHERE)
        os.close(seen)
    for name in ("home", "hub"):
        os.makedirs(f"{scratch}/{name}", exist_ok=True)  # noqa: PTH103
    for path in walls["kept"]:
        # What is locked must be asked for again.
        held = os.statvfs(path).f_flag & _LIMITS
        _mount("", path, "", _REMOUNT | _BIND | _READ_ONLY | held)


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _keep_a_right() -> None:
    """Let what we start keep a capability that a cell has not.

    It may therefore not look into the first process of its room, which stands outside of its walls.
    """
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, sets), "capabilities")
    sets[2] |= 1 << _NICE
    _check(_libc.capset(header, sets), "an inheritable capability")
    _check(_libc.prctl(_AMBIENT, _RAISE, _NICE, 0, 0), "an ambient capability")


def _drop_rights() -> None:
    number = 0
    while _libc.prctl(_DROP_BOUND, number, 0, 0, 0) == 0:
        number += 1
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none), "no capabilities")
    _check(_libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0), "no new rights")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    texts = [text.encode() or None for text in (source, target, kind)]
    done = _libc.mount(*texts, ctypes.c_ulong(flags), data.encode() or None)
    _check(done, f"mounting {target}")


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
