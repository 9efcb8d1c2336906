"""One running cell as its zygote sees it: pipes, deadline, memory, and how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from typing import TYPE_CHECKING, Any

from runner.inside import cage, child

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.inside.child import Request

_KEEP = 16_384
_REPORT_LIMIT = 1 << 20
_HIGH = 200
_DECLINED = 125
# Class names by which Python and torch say that memory ran out.
_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})
_ALLOCATOR = "DefaultCPUAllocator: can't allocate memory"


class Slot:
    """A cell in flight."""

    def __init__(self, request: Request, boot: list[str]) -> None:
        """Start the cell; `boot` is how a fresh interpreter of ours is started."""
        self.request = request
        self.boot = boot
        self.stopped = ""
        self.family: set[int] = set()
        """Every process seen in its tree, so that a neighbour's sweep spares its orphans."""
        self.report = bytearray()
        self.output = bytearray()
        self.dropped = 0
        self.nonce = secrets.token_hex(8).encode()
        self.folder = tempfile.mkdtemp(prefix="cell-")
        # A process with a second thread cannot be forked safely.
        self.fresh = request["fresh"] or cage.threads() != 1
        self.baseline = 0 if self.fresh else cage.resident(os.getpid())
        self.began = time.monotonic()
        self.reports, report = os.pipe()
        self.outputs, output = os.pipe()
        os.set_blocking(self.reports, False)
        os.set_blocking(self.outputs, False)
        self.pid = self._start(report, output)
        os.close(report)
        os.close(output)
        self.ended = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1

    def _start(self, report: int, output: int) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._inside(parent, report, output)
        except BaseException:  # noqa: BLE001 - a child must never return into the zygote's loop
            os.write(2, traceback.format_exc().encode())
        os._exit(1)

    def _inside(self, parent: int, report: int, output: int) -> None:
        cage.die_with_parent(parent)
        os.setsid()
        os.chdir(self.folder)
        os.environ["TMPDIR"] = self.folder
        tempfile.tempdir = None
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # Far away from the numbers that a case might guess.
        channel = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        if self.fresh:
            os.set_inheritable(channel, True)  # noqa: FBT003
            message = json.dumps([self.request, channel, self.nonce.decode()])
            os.execv(sys.executable, [*self.boot, "cell", message])  # noqa: S606 - our own boot
        _close_all_but(channel)
        child.run(self.request, sender(channel, self.nonce))

    def descriptors(self) -> list[int]:
        """Return what becomes readable when something happens."""
        return [fd for fd in (self.reports, self.outputs, self.ended) if fd >= 0]

    def tend(self) -> bool:
        """Read what there is, hold the bounds, and say whether the cell has ended."""
        self._drain()
        if not self.stopped:
            self._hold_bounds()
        # WNOWAIT leaves the zombie: its number cannot be used again before the sweep.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _hold_bounds(self) -> None:
        if time.monotonic() - self.began > self.request["seconds"]:
            self._stop("times-out")
        elif self._resident() > self.request["memory"] << 20:
            self._stop("out-of-memory")

    def _resident(self) -> int:
        tree = [self.pid, *cage.descendants(self.pid)]
        self.family.update(tree)
        return sum(max(0, cage.resident(pid) - self.baseline) for pid in tree)

    def _stop(self, why: str) -> None:
        self.stopped = why
        cage.kill([self.pid, *cage.descendants(self.pid)])

    def _drain(self) -> None:
        for chunk in _chunks(self.reports):
            self.report += chunk[: max(0, _REPORT_LIMIT - len(self.report))]
        for chunk in _chunks(self.outputs):
            self.output += chunk
            if len(self.output) > 2 * _KEEP:
                self.dropped += len(self.output) - 2 * _KEEP
                del self.output[_KEEP:-_KEEP]

    def finish(self, spared: set[int]) -> dict[str, Any]:
        """Sweep behind the cell and return the answer for the runner."""
        cage.end_group(self.pid)
        status = os.waitpid(self.pid, 0)[1]
        cage.sweep(spared)
        self._drain()
        for descriptor in self.descriptors():
            os.close(descriptor)
        shutil.rmtree(self.folder, ignore_errors=True)
        answer = classify(self.stopped, status, self._read_report())
        wall = time.monotonic() - self.began
        return {"id": self.request["id"], "wall": wall, "output": self._said(), **answer}

    def _read_report(self) -> dict[str, Any] | None:
        if not self.report.startswith(self.nonce):
            return None
        with contextlib.suppress(ValueError):
            found = json.loads(bytes(self.report[len(self.nonce) :]))
            return found if isinstance(found, dict) else None
        return None

    def _said(self) -> str:
        text = bytes(self.output)
        if self.dropped:
            note = f"\n… {self.dropped} bytes left out …\n".encode()
            text = text[:_KEEP] + note + text[-_KEEP:]
        return text.decode("utf-8", "backslashreplace")


def sender(channel: int, nonce: bytes) -> Callable[[bytes], None]:
    """Return the function by which a child reports; bound early, before a case can change `os`."""
    write = os.write

    def send(content: bytes) -> None:
        rest = nonce + content
        while rest:
            rest = rest[write(channel, rest) :]

    return send


def classify(stopped: str, status: int, report: dict[str, Any] | None) -> dict[str, Any]:
    """Turn how a process ended and what it reported into an outcome."""
    found = report or {}
    if stopped:
        return {**found, "outcome": stopped}
    if report is None:
        return _without_report(status)
    if found.get("exit") == 0:
        return {**found, "outcome": "passes"}
    if found.get("exit") == _DECLINED:
        return {**found, "outcome": "declines", "reason": "the case declines (exit 125)"}
    memory = found.get("error_class") in _MEMORY or _ALLOCATOR in found.get("message", "")
    return {**found, "outcome": "out-of-memory" if memory else "fails"}


def _without_report(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        name = _signal_name(os.WTERMSIG(status))
        return {"outcome": "crashes", "error_class": name, "message": f"died by {name}"}
    code = os.WEXITSTATUS(status)
    message = f"the process ended with exit code {code} and without a report"
    return {"outcome": "fails", "error_class": "MissingReport", "message": message}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"


def _chunks(descriptor: int) -> list[bytes]:
    chunks = []
    for _ in range(64):  # bounded: a flood must not keep the zygote from its other cells
        try:
            chunk = os.read(descriptor, 1 << 18)
        except BlockingIOError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    return chunks


def _close_all_but(channel: int) -> None:
    os.closerange(3, channel)
    os.closerange(channel + 1, channel + 256)
