"""One running cell as the worker sees it: pipes, deadline, memory, and how it ended."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import secrets
import signal
import sys
import tempfile
import time
import traceback
from typing import TYPE_CHECKING, Any

from repromatrix.runner.worker import cell, cleanup, process_control
from repromatrix.runner.worker.cleanup import DiskUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from repromatrix.runner.worker.cell import Request
    from repromatrix.runner.worker.main import ForkServer
    from repromatrix.runner.worker.sandbox import CellNamespaces

_KEEP = 16_384
_REPORT_LIMIT = 1 << 22


class Pipes:
    """The worker's ends of what a cell writes to; the other ends are the cell's."""

    def __init__(self) -> None:
        """Open both."""
        self.content = bytearray()
        self.output = bytearray()
        self.dropped = 0
        self.silent: set[int] = set()
        """Descriptors that were closed at the other end: asked again, they answer at once."""
        self.nonce = secrets.token_hex(8).encode()
        self.reports, self.report_end = os.pipe()
        self.outputs, self.output_end = os.pipe()
        os.set_blocking(self.reports, False)
        os.set_blocking(self.outputs, False)

    def begin(self) -> None:
        """Leave the cell's ends to the cell, which has them now."""
        os.close(self.report_end)
        os.close(self.output_end)

    def drain(self) -> None:
        """Read what there is."""
        for chunk in self._chunks(self.reports):
            self.content += chunk[: max(0, _REPORT_LIMIT - len(self.content))]
        for chunk in self._chunks(self.outputs):
            self.output += chunk
            if len(self.output) > 2 * _KEEP:
                self.dropped += len(self.output) - 2 * _KEEP
                del self.output[_KEEP:-_KEEP]

    def _chunks(self, descriptor: int) -> list[bytes]:
        chunks = []
        for _ in range(64):  # bounded: a flood must not keep the worker from its other cells
            try:
                chunk = os.read(descriptor, 1 << 18)
            except BlockingIOError:
                break
            if not chunk:
                self.silent.add(descriptor)
                break
            chunks.append(chunk)
        return chunks

    def close(self) -> None:
        """Close what it is read through."""
        os.close(self.reports)
        os.close(self.outputs)

    def report(self) -> dict[str, Any] | None:
        """Return what the child reported, if it did, and nobody else in its place."""
        if not self.content.startswith(self.nonce):
            return None
        return read_report(bytes(self.content[len(self.nonce) :]))

    def text(self) -> str:
        """Return what was printed: its beginning and its end."""
        text = bytes(self.output)
        if self.dropped:
            note = f"\n… {self.dropped} bytes left out …\n".encode()
            text = text[:_KEEP] + note + text[-_KEEP:]
        return text.decode("utf-8", "backslashreplace")


def sender(channel: int, nonce: bytes = b"") -> Callable[[bytes], None]:
    """Return the function by which a child reports; bound early, before a case can change `os`."""
    write = os.write

    def send(content: bytes) -> None:
        rest = nonce + content
        while rest:
            rest = rest[write(channel, rest) :]

    return send


_LARGEST = 2.0**62
"""What a database takes as a number."""
_EXERCISED = frozenset({"", "yes", "no"})


def read_report(content: bytes) -> dict[str, Any] | None:
    """Return a report as a child of ours writes it; nothing else is one."""
    try:
        report = json.loads(content)
        json.dumps(report, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    is_sound = isinstance(report, dict) and all(
        _KINDS[name](value) for name, value in report.items() if name in _KINDS
    )
    return report if is_sound else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < _LARGEST


def _each(is_sound: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(is_sound, value.values()))


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


_KINDS: dict[str, Callable[[object], bool]] = {
    "exit": _is(int, type(None)),
    "error_class": _is(str),
    "message": _is(str),
    "traceback": _is(str),
    "seconds": _is_number,
    "exercised": lambda value: isinstance(value, str) and value in _EXERCISED,
    "computed": _each(lambda value: isinstance(value, int) and _is_number(value)),
    "measured": _each(_is(float)),
    "payload": _is(str),
    "compiles": _is(bool),
    "imported": _each(_is(str)),
    "claimed": _each(_is(str)),
    "sandbox": _is(str),
}


_DECLINED = 125
CROWD = "crowd"
_CROWDED = {
    "outcome": "crashes",
    "error_class": "TooManyProcesses",
    "message": "more processes and threads at once than a cell may have",
}
DISK = "disk"
_TOO_MUCH = {
    "outcome": "crashes",
    "error_class": "TooMuchDisk",
    "message": "its files took more of the disk than a cell may have",
}
_STOPPED = {CROWD: _CROWDED, DISK: _TOO_MUCH}
# Class names by which Python and torch say that memory ran out.
_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})
# What else torch says of it, under the names of other errors.
_OUT_OF_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def classify(stopped: str, status: int, report: dict[str, Any] | None) -> dict[str, Any]:
    """Turn how a process ended and what it reported into an outcome."""
    if stopped:
        ended = _STOPPED.get(stopped, {"outcome": stopped})
        return {**(report or {}), **ended}
    if report is None:
        return _without_report(status)
    if "sandbox" in report:
        reason = f"its sandbox cannot be made: {report['sandbox']}"
        return {"outcome": "not-run", "reason": reason}
    if report.get("exit") == 0:
        return {**report, "outcome": "passes"}
    if report.get("exit") == _DECLINED:
        return {**report, "outcome": "declines", "reason": "the case declines (exit 125)"}
    message = report.get("message", "")
    lacked = report.get("error_class") in _MEMORY or any(text in message for text in _OUT_OF_MEMORY)
    return {**report, "outcome": "out-of-memory" if lacked else "fails"}


def _without_report(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        name = f"signal {os.WTERMSIG(status)}"
        with contextlib.suppress(ValueError):  # most real-time signals have no name
            name = signal.Signals(os.WTERMSIG(status)).name
        return {"outcome": "crashes", "error_class": name, "message": f"died by {name}"}
    code = os.WEXITSTATUS(status)
    message = f"the process ended with exit code {code} and without a report"
    return {"outcome": "fails", "error_class": "MissingReport", "message": message}


LONGEST = 5
"""How many times its limit a cell may take in all, where others have the cores."""
_HIGH = 200
_NOT_INITIALIZED = 3
"""CUDA_ERROR_NOT_INITIALIZED of <cuda.h>."""
_CUDA_DRIVER = "libcuda.so.1"
_JUDGED = frozenset({"passes", "declines"})


class CellProcess:
    """A cell in flight."""

    def __init__(self, request: Request, server: ForkServer) -> None:
        """Start the cell of a worker."""
        self.request = request
        self.server = server
        self.stopped = ""
        self.first = 0
        """The first process of its namespace, with which all others end; 0 without a sandbox."""
        self.disturbed = False
        """Whether a crowd was ended while it ran, which may have cost it a process or a thread."""
        self.family: set[int] = set()
        """Every process seen in its tree, so that a neighbour's sweep spares its orphans."""
        self.peak = 0
        self.folder = tempfile.mkdtemp(prefix="cell-")
        self.disk = DiskUse(self.folder)
        # No fork gets the locks back that a second thread holds, and none can compute on a GPU
        # once CUDA is initialized here.
        self.fresh = (
            request["fresh"]
            or process_control.threads() > 1
            or (request["device"] == "cuda" and is_cuda_initialized())
        )
        self.baseline = 0 if self.fresh else process_control.resident(os.getpid())
        self.began = time.monotonic()
        self.pipes = Pipes()
        try:
            self.pid = self._start()
        except OSError:
            # Leave nothing of a cell that could not be started.
            if self.first:
                process_control.kill([self.first])
                os.waitpid(self.first, 0)
            self.pipes.close()
            cleanup.remove(self.folder)
            raise
        finally:
            self.pipes.begin()
        self.ended = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1

    def _start(self) -> int:
        parent, namespaces = os.getpid(), self.server.namespaces
        self.first = namespaces.open() if namespaces else 0
        try:
            pid = os.fork()
            if pid:
                return pid
        finally:
            if namespaces and os.getpid() == parent:
                namespaces.leave()
        leave = os._exit  # a case may put anything in its place
        try:
            self._inside(parent)
        except BaseException:  # noqa: BLE001 - whatever a case broke
            os.write(2, traceback.format_exc().encode())
        finally:
            leave(1)  # a child must never return into the worker's loop

    def _inside(self, parent: int) -> None:
        os.setsid()
        if self.server.namespaces is None:
            process_control.die_with_parent(parent)
        else:
            self._enter_sandbox(self.server.namespaces)
        process_control.adopt_orphans()  # what a case lets go of still counts as its own
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash writes no memory to the disk
        os.chdir(self.folder)
        os.environ["TMPDIR"] = self.folder
        tempfile.tempdir = None
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(self.pipes.output_end, 1)
        os.dup2(self.pipes.output_end, 2)
        # Far away from the numbers that a case might guess.
        channel = fcntl.fcntl(self.pipes.report_end, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        request, text = self.request, self.server.texts.get(self.request["case"])
        if text is not None:
            request = {**request, "code": text}
        if self.fresh:
            os.set_inheritable(channel, True)  # noqa: FBT003
            written = _written(request, self.folder)
            message = json.dumps([written, channel, self.pipes.nonce.decode()])
            os.execv(sys.executable, [*self.server.boot, "cell", message])  # noqa: S606 - our own boot
        os.closerange(3, channel)
        os.closerange(channel + 1, channel + 256)
        cell.run(request, sender(channel, self.pipes.nonce))

    def _enter_sandbox(self, namespaces: CellNamespaces) -> None:
        """Enter the sandbox; a machine that cannot make one says nothing about the case."""
        # Our number is of another namespace than our parent's, which cannot be asked for.
        process_control.signal_at_end_of_parent(signal.SIGKILL)
        try:
            namespaces.shut(self.folder)
        except OSError as error:
            report = json.dumps({"sandbox": str(error)}).encode()
            sender(self.pipes.report_end, self.pipes.nonce)(report)
            os._exit(1)

    def speaking(self) -> list[int]:
        """Return the descriptors that something may still come from."""
        every = (self.pipes.reports, self.pipes.outputs, self.ended)
        return [number for number in every if number >= 0 and number not in self.pipes.silent]

    def tend(self) -> bool:
        """Read what there is, hold the bounds, and say whether the cell has ended."""
        self.pipes.drain()
        # WNOWAIT leaves the zombie: its number cannot be used again before the sweep.
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        ended = found is not None
        if not self.stopped:
            self._hold_bounds(ended=ended)
        return ended

    def _hold_bounds(self, *, ended: bool) -> None:
        most = self.request["processes"]
        # Looked at first, because it is quick: among a crowd a worker has little time.
        if len(self.server.rest(self, most)) > most:
            self._stop(CROWD)
            return
        if ended:  # one that ended in time is not too late because it is looked at late
            return
        tree = self.tree()
        held = sum(max(0, process_control.resident(pid) - self.baseline) for pid in tree)
        self.peak = max(self.peak, held)
        if self._is_late(tree):
            self._stop("times-out")
        elif sum(map(process_control.tasks, tree)) > most:
            self._stop(CROWD)
        elif held > self.request["memory"] << 20:
            self._stop("out-of-memory")
        elif self.disk.is_above(self.request["disk"] << 20):
            self._stop(DISK)

    def _is_late(self, tree: set[int]) -> bool:
        """Say whether its time is over; that others had the cores says nothing about a case."""
        taken, seconds = time.monotonic() - self.began, self.request["seconds"]
        if taken <= seconds:
            return False
        waited = max(map(process_control.waited, tree))
        return taken - waited > seconds or taken > LONGEST * seconds

    def tree(self) -> set[int]:
        """Return the processes of the cell, also those whose own parents have ended."""
        tops = [self.pid, *process_control.adopted(self.pid, self.family)]
        if self.first:
            tops.append(self.first)
        tree = {pid for top in tops for pid in (top, *process_control.descendants(top))}
        self.family.update(tree)
        return tree

    def _stop(self, why: str) -> None:
        self.stopped = why
        if why == CROWD:
            if self.first:
                process_control.kill([self.first])
            process_control.end_every(lambda: self.server.rest(self, 0))
        self.end()

    def end(self) -> None:
        """Kill all that is in the cell; in a namespace of its own, all of it at once."""
        if self.first:
            process_control.kill([self.first])
        process_control.end_tree([self.pid, *process_control.adopted(self.pid, self.family)])

    def finish(self, spared: set[int]) -> dict[str, Any]:
        """Sweep behind the cell and return the answer for the runner; its folder is left."""
        self.end()
        process_control.end_group(self.pid)
        _, status, used = os.wait4(self.pid, 0)
        # What it held between two looks.
        self.peak = max(self.peak, used.ru_maxrss * process_control.MAXRSS_UNIT - self.baseline)
        if self.first:
            os.waitpid(self.first, 0)
        process_control.sweep(spared)
        self.pipes.drain()
        self.pipes.close()
        if self.ended >= 0:
            os.close(self.ended)
        full = cleanup.is_full(self.folder)
        answer = classify(self.stopped, status, self.pipes.report())
        full = full or cleanup.is_told(answer.get("message", ""))
        return {
            **answer,
            **({"disk_full": True} if full and answer["outcome"] not in _JUDGED else {}),
            "id": self.request["id"],
            "wall": time.monotonic() - self.began,
            "peak": -(-self.peak >> 20),  # rounded up: what was stopped is above its limit
            "limit": self.request["memory"],
            "output": self.pipes.text(),
        }


def is_cuda_initialized() -> bool:
    """Say whether CUDA was initialised in this process, by torch or by anybody else."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return True
    # The driver's own library is asked if somebody has loaded it: loading it here says nothing.
    with contextlib.suppress(OSError, AttributeError):
        driver = ctypes.CDLL(_CUDA_DRIVER, mode=os.RTLD_NOLOAD)
        number = ctypes.c_int()
        return int(driver.cuDeviceGetCount(ctypes.byref(number))) != _NOT_INITIALIZED
    return False


def _written(request: Request, folder: str) -> int:
    """Write a request where a fresh interpreter reads it: an argument has a limit."""
    file, path = tempfile.mkstemp(dir=folder)
    os.unlink(path)  # noqa: PTH108
    os.write(file, json.dumps(request).encode())
    os.set_inheritable(file, True)  # noqa: FBT003
    return file
