"""The sandbox of a cell: namespaces with its own folder and its own processes, and no rights.

bubblewrap has made the outer sandbox: no network, a read-only system, and of the rest only what
the worker was given to see. The worker enters namespaces of its own inside (`enter`), so that not
even the libraries that it imports can undo the sandbox; it is the first process there, and counts
its cells. Each cell has namespaces of its own below: it can name no other process, and however
fast it forks, all of it ends at once with the first process there.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
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
"""How many processes and threads all cells of a worker may have, where the system counts them."""

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxRequest(TypedDict):
    """What the runner says of the outer sandbox."""

    proc: int
    """A descriptor of the system's own /proc, by which we say who we are; then it is closed."""
    scratch: str
    """The worker's own folder; a cell sees nothing of it but its own."""
    shown: list[str]
    """What lies where a cell gets fresh folders, and must stay to be seen."""
    kept: list[str]
    """What the worker may write, and a cell may not."""


def enter(sandbox: SandboxRequest) -> None:
    """Go on as the first process of a new namespace; the process that called waits for its end."""
    process_control.signal_at_end_of_parent(signal.SIGKILL)
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_PIDS), "namespaces")
    told = (
        ("self/setgroups", "deny"),
        ("self/uid_map", f"{user} {user} 1"),
        ("self/gid_map", f"{group} {group} 1"),
        # No further user namespace: in one of its own a cell would have rights again.
        ("sys/user/max_user_namespaces", "0"),
    )
    for name, text in told:
        file = os.open(name, os.O_WRONLY, dir_fd=sandbox["proc"])
        os.write(file, text.encode())
        os.close(file)
    os.close(sandbox["proc"])
    pid = os.fork()
    if pid:
        _relay(pid)
    process_control.signal_at_end_of_parent(signal.SIGKILL)
    _mount("proc", "/proc", "proc", _LIMITS)
    _keep_a_right()


def _relay(pid: int) -> None:
    """Wait for the worker and end as it ended; its pipes must be nobody's but its own."""
    os.closerange(3, 1 << 10)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    status = os.waitpid(pid, 0)[1]
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    os._exit(128 + ended if ended else os.WEXITSTATUS(status))


class CellNamespaces:
    """Makes the namespaces of cells, in the worker."""

    def __init__(self, sandbox: SandboxRequest) -> None:
        """Remember our own namespace, to come back to."""
        self.sandbox = sandbox
        self.own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def open(self) -> int:
        """Let what is forked next be in a new namespace; return its first process, a `sleep`.

        When that one ends, the kernel ends everything in the namespace.
        """
        # A cell may not be the first process itself: signals do not end that one, so a case that
        # calls `abort` would go on. Therefore a `sleep`, and the cell is forked beside it.
        _check(_libc.unshare(_NEW_PIDS), "a namespace for processes")
        nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        command = ["sleep", str(_FOR_EVER)]
        try:
            return os.posix_spawnp("sleep", command, dict(os.environ), file_actions=nothing)
        except OSError:
            self.leave()
            raise

    def leave(self) -> None:
        """Let what is forked next be in the namespace of the worker again."""
        _check(_libc.setns(self.own, _NEW_PIDS), "the way back")

    def shut(self, folder: str) -> None:
        """Give this process, a cell, its own folder, a read-only rest, and no rights."""
        _check(_libc.unshare(_NEW_MOUNTS), "a namespace for mounts")
        _furnish(self.sandbox, folder)
        _mount("proc", "/proc", "proc", _LIMITS)
        # The count is of our user namespace; it does not hold for root (see `execution.cgroup`).
        _, most = resource.getrlimit(resource.RLIMIT_NPROC)
        tasks = TASKS if most == resource.RLIM_INFINITY else min(TASKS, most)
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
        _drop_rights()


def _furnish(sandbox: SandboxRequest, folder: str) -> None:
    """Put fresh folders where cells write, and back into them what must be seen."""
    scratch = sandbox["scratch"]
    is_fresh = scratch.startswith(tuple(f"{folder}/" for folder in _FRESH))
    fresh = [*_FRESH, *([] if is_fresh else [scratch])]
    again = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in [*sandbox["shown"], folder]}
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
    for path in sandbox["kept"]:
        # What is locked must be asked for again.
        held = os.statvfs(path).f_flag & _LIMITS
        _mount("", path, "", _REMOUNT | _BIND | _READ_ONLY | held)


def _keep_a_right() -> None:
    """Let what we start keep a capability that a cell lacks.

    So a cell may not look into the first process of its namespace, which is outside of its sandbox.
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
