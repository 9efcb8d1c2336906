"""The client of a worker: start it, send it cells, read what they did."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repromatrix.runner.environments.building import Built, NoGpuBuildError
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.execution import cgroup, sandbox
from repromatrix.runner.execution.events import Tree
from repromatrix.runner.execution.sandbox import VisiblePaths
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import IMPORTED, ROOT
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.tempdirs import TempDir
from repromatrix.runner.worker import gpu_probe, process_control
from repromatrix.runner.worker.cell import THREADS, Request
from repromatrix.runner.worker.cell_process import LONGEST
from repromatrix.runner.worker.main import BOOT
from repromatrix.runner.worker.overlay import Overlay

_STARTING = 300.0
_SWEEPING = 10.0
_GRACE = 60.0
_LOOK = 1.0
_LINE = 1 << 24
_ENDED_BY_SIGNAL = 128
_PROBING = 120.0
_MEND_CUDA = "UV_TORCH_BACKEND=auto lets torch be built for this machine's driver"


class WorkerError(Exception):
    """The worker ended or fell silent; the text says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a worker is to be started; `fork` off makes every cell a fresh interpreter."""

    built: Built
    device: Device
    preload: Mapping[str, object]
    fork: bool
    slots: int
    hash_seed: str = "0"
    front: Overlay | None = None
    """A tree of sources to put in front of the path, and where its compiled files are kept."""
    sandbox: bool = False
    cases: Sequence[Path] = ()
    """Scripts that it is asked to run as their files stand, and folders of what scripts import."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By path, the scripts that it is asked to run as they were read.

    In a sandbox it sees no others than these and `cases`.
    """


_starting: set[Worker] = set()
"""Workers that import: until they are ready they hear nothing, and have no cell to sweep."""


def end_starting() -> None:
    """Kill every worker that is starting; those who wait for one get its end."""
    for worker in list(_starting):
        worker.abandon()


class Worker:
    """A running worker; close it to end it and everything below it."""

    def __init__(self, start: Start) -> None:
        """Start it and wait until it is ready; raises WorkerError."""
        self.start = start
        self._kept = TempDir()
        self.scratch = self._kept.folder
        for name in ("home", "hub", "cells"):
            (self.scratch / name).mkdir()
        self.link = _link(start.built, self.scratch)
        self.group = cgroup.group()
        self.sending = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.refused: list[str] = []
        self.reasons: list[str] = []
        self.hello: dict[str, Any] = {}
        self.seen: VisiblePaths | None = None
        self.abandoned = False
        _starting.add(self)
        try:
            # Not with each request: runner and worker would wait for each other's full pipes.
            (self.scratch / "texts").write_text(json.dumps(start.texts), encoding="utf-8")
            if start.sandbox:
                cases = [*start.cases, *map(Path, start.texts)]
                seen = sandbox.shown(start.built, cases, start.front, self.scratch, start.device)
                self.seen = dataclasses.replace(seen, link=self.link)
            self._prepare()
        except RunnerError as error:
            self.close()
            raise WorkerError(str(error)) from error
        except BaseException:
            self.close()
            raise
        finally:
            _starting.discard(self)

    def _prepare(self) -> None:
        while not self.hello.get("ready"):
            if self.abandoned:
                msg = "it was ended while it started"
                raise WorkerError(msg)
            self._begin()
            self.hello = self._read(_STARTING)
            if not self.hello.get("ready"):
                # Its imports left something half-done behind: start again without them.
                self.refused.append(self.hello["refused"])
                self.reasons.append(self.hello["why"])
                self._end()

    def _begin(self) -> None:
        here, there = os.pipe()
        settings = self._settings(there)
        environ = worker_environ(self.scratch, self.start.device)
        environ["PYTHONHASHSEED"] = self.start.hash_seed
        self.log = (self.scratch / "log").open("ab")
        with contextlib.ExitStack() as opened:
            outer, inherited = [], [there, *self.group.inherited]
            if self.seen is not None:  # by its /proc a worker in a sandbox says who it is
                inherited.append(opened.enter_context(sandbox.own_proc()))
                settings["sandbox"] = {**self.seen.request, "proc": inherited[-1]}
                settings["shared"] = []  # each cell has fresh ones there
                outer = self.seen.command()
            built = self.start.built
            python = (
                self.link / built.python.relative_to(built.folder) if self.link else built.python
            )
            boot = [str(python), "-c", BOOT, str(IMPORTED)]
            self.process = subprocess.Popen(
                [*outer, *boot, "serve", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=self.log,
                stderr=self.log,
                pass_fds=inherited,
                bufsize=0,  # what it has no room for is not kept back for it
                env=environ,
                cwd=self.scratch,
                start_new_session=True,
            )
        os.close(there)
        self.answers = here
        self.buffer = b""

    def _settings(self, answers: int) -> dict[str, Any]:
        return {
            "answers": answers,
            "scratch": str(self.scratch),
            "cells": str(self.scratch / "cells"),
            "texts": str(self.scratch / "texts"),
            "shared": [str(self.scratch / name) for name in ("home", "hub")],
            "slots": self.start.slots,
            "fork": self.start.fork,
            "preload": dict(self.start.preload),
            "refused": self.refused,
            "front": self.start.front,
            "entrance": self.group.entrance,
            "listing": "" if self.start.sandbox else self.group.listing,
            "sandbox": None,
        }

    def _read(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                msg = f"no answer within {seconds:.0f} s"
                raise WorkerError(msg)
            if not select.select([self.answers], [], [], min(left, _LOOK))[0]:
                if self.process is not None and process_control.is_stopped(self.process.pid):
                    # A case stopped it: it would be awaited for minutes.
                    self.process.send_signal(signal.SIGCONT)  # so that it can end what it runs
                    msg = "it was stopped"
                    raise WorkerError(msg)
                continue
            chunk = os.read(self.answers, 1 << 16)
            if not chunk or len(self.buffer) > _LINE:
                raise WorkerError(self._last_words())
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        if self.link:  # an answer names files by the path that everybody knows
            line = line.replace(_quoted(self.link), _quoted(self.start.built.folder))
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            msg = f"it said what is no answer: {line[:100]!r}"
            raise WorkerError(msg) from error
        return answer

    def _last_words(self) -> str:
        code = self._code()
        said = (
            (self.scratch / "log")
            .read_text(errors="backslashreplace", encoding="utf-8")
            .strip()
            .splitlines()
        )
        if self.seen and code > _ENDED_BY_SIGNAL:  # as it is told through the outer sandbox
            code = _ENDED_BY_SIGNAL - code
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"it ended with {how}" + (f": {said[-1][:300]}" if said else "")

    def _code(self) -> int:
        """Return how it ended; one that answers no more and does not end is killed."""
        if self.process is None:
            return 0
        try:
            return self.process.wait(timeout=_SWEEPING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def run(
        self, requests: Iterable[Mapping[str, Any]], ahead: int | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Send cells and yield (id, answer) as they end; raises WorkerError when it is lost.

        At most `ahead` cells are with it at any time, all of them where nothing is given: the
        next one is sent when an answer comes, so that it never waits for the slowest of a group.
        """
        coming, sent, answered, longest = iter(requests), 0, 0, 0.0
        while True:
            room = None if ahead is None else max(0, ahead - (sent - answered))
            for request in itertools.islice(coming, room):
                try:
                    self._send(request)
                except BrokenPipeError as error:
                    raise WorkerError(self._last_words()) from error
                sent += 1
                longest = max(longest, request["seconds"])
            if sent == answered:
                return
            # Each has its own deadline inside; twice, because a case that compiles runs twice.
            answer = self._read(2 * LONGEST * longest + _GRACE)
            answered += 1
            yield answer.pop("id"), answer

    def gpu(self, limits: Limits) -> str:
        """Let a cell say which GPU the cells of this worker compute on.

        It is what evidence names: `NVIDIA H200, compute capability 9.0, driver 570.86.15`.
        Raises NoGpuBuildError with torch's reason, and WorkerError when the worker is lost.
        """
        answer = next(answer for _, answer in self.run([_probe(limits)]))
        about: dict[str, str] = {}
        if answer.get("error_class") == "SystemExit":
            about = json.loads(answer["message"])
        if about.keys() == {"name", "capability", "driver"}:
            driver = about["driver"] or "unknown"
            return f"{about['name']}, compute capability {about['capability']}, driver {driver}"
        said = "no answer"
        if "error_class" in answer:
            said = f"{answer['error_class']}: {answer.get('message', '')}"
        why = about.get("lacking") or f"asking torch for its GPU {answer['outcome']}: {said}"
        reason = anonymous(placeless(why, self.start.built.folder))
        mendable = "without CUDA" in reason and self.start.built.torch is None
        raise NoGpuBuildError(f"{reason}; {_MEND_CUDA}" if mendable else reason)

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process is not None  # noqa: S101 - nothing is sent before it is ready
        assert self.process.stdin is not None  # noqa: S101 - it was opened as a pipe
        rest = json.dumps(message).encode() + b"\n"
        until = time.monotonic() + _GRACE
        with self.sending:
            while rest:
                if select.select([], [self.process.stdin], [], _LOOK)[1]:
                    sent = self.process.stdin.write(rest[: select.PIPE_BUF])
                    rest = rest[sent or 0 :]
                elif time.monotonic() > until:
                    msg = f"it has read nothing for {_GRACE:.0f} s"
                    raise WorkerError(msg)

    def widen(self, slots: int) -> None:
        """Let it run more cells at once, from another thread: cores have become free."""
        with contextlib.suppress(OSError, ValueError, AssertionError, WorkerError):
            self._send({"slots": slots})

    def abort(self) -> None:
        """Drop what is in flight, from another thread: it sweeps its cells and ends."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.close()

    def abandon(self) -> None:
        """Kill it while it starts, from another thread, and let it not begin anew.

        With its group: bubblewrap forks before it asks the kernel to end its child with it. One
        that is left holds our pipe until its imports are done.
        """
        self.abandoned = True
        process = self.process
        if process is not None and process.poll() is None:
            process_control.end_group(process.pid)

    def close(self) -> None:
        """End it and everything below it, and remove its folder."""
        self._end()
        self.group.close()
        self._kept.remove()

    def _end(self) -> None:
        if self.process is None:
            return
        self.abort()
        if self._code():
            process_control.end_strays(str(self.scratch))  # killed, it swept nothing
        os.close(self.answers)
        self.log.close()
        self.process = None


# Packages import lazily: a name that needs most of what lies behind it.
_TELLING = {"transformers": "PreTrainedModel", "accelerate": "Accelerator", "peft": "PeftModel"}


def unimportable(built: Built, tree: Tree, *, sandbox: bool = False) -> str:
    """Return why the package of a tree cannot be imported; nothing where it can."""
    names = {tree.package: [_TELLING[tree.package]]} if tree.package in _TELLING else {}
    start = Start(
        built=built,
        device=Device.CPU,
        preload={"modules": [tree.package], "names": names},
        fork=True,
        slots=1,
        front=tree.front,
        sandbox=sandbox,
    )
    try:
        with contextlib.closing(Worker(start)) as worker:
            reason = next(iter(worker.reasons), "")
    except WorkerError as error:
        reason = str(error)
    return placeless(reason.replace(f"{tree.path}/", ""), built.folder)


_PLACES = (
    (re.compile(r"[^/\s\"':(]*(?:/[^/\s\"':]+)+/(?:lib/)?(?=site-packages/|python3\.\d+/)"), ""),
    (re.compile(r"python3\.\d+/(?=site-packages/)"), ""),
    (re.compile(r"(?:/[^/\s\"':]+)+/(?=cases/\w+\.py)"), ""),
    (re.compile(r"(?:/[^/\s\"':]+)+/cells/cell-\w+"), "<cell>"),
)


def placeless(text: str, folder: Path) -> str:
    """Take out where on this machine things lie: environments, interpreters, cells' folders.

    What is known is taken out by its name, since a path may hold spaces; the rest by its shape.
    """
    for known in (folder, folder.resolve()):
        text = text.replace(f"{known}/lib/", "")
    text = text.replace(f"{ROOT}/", "")
    for pattern, replacement in _PLACES:
        text = pattern.sub(replacement, text)
    return text


def _probe(limits: Limits) -> Request:
    return {
        "id": -1,
        "case": str(Path(gpu_probe.__file__)),
        "precision": "fp32",
        "workaround": "",
        "device": "cuda",
        "environ": {},
        "exercises": "compute",
        "fresh": False,
        "witness": False,
        "seconds": _PROBING,
        "memory": limits.memory,
        "disk": limits.disk,
        "processes": limits.processes,
        "threads": 1,
        "front": None,
    }


def _link(built: Built, scratch: Path) -> Path | None:
    """Return another path of an environment whose own holds a space; nothing where none does.

    torch's compiler does not quote the folders that it gives to the linker.
    """
    has_space = any(map(str.isspace, str(built.folder)))
    if not has_space or not built.python.is_relative_to(built.folder):
        return None
    link = scratch / "environment"
    link.symlink_to(built.folder.absolute())
    return link


def _quoted(path: Path) -> bytes:
    return json.dumps(str(path))[1:-1].encode()


# Only these come from outside: no token, no proxy, no PYTHONPATH and no thread setting of the user.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")
_KEPT_CUDA = ("CUDA_DEVICE_ORDER", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_GPU = {_VISIBLE: "", "HIP_VISIBLE_DEVICES": ""}


def worker_environ(scratch: Path, device: Device) -> dict[str, str]:
    """Return the whole environment of a worker; `scratch` is its own folder for home and caches."""
    kept = (*_KEPT, *_KEPT_CUDA) if device is Device.CUDA else _KEPT
    first = os.environ.get(_VISIBLE, "0").partition(",")[0]
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        # A cell sees one GPU, the first of the user's: a Trainer spreads over all that it sees.
        **({_VISIBLE: first} if device is Device.CUDA else _NO_GPU),
        "HOME": str(scratch / "home"),
        "HF_HOME": str(scratch / "hub"),
        "TMPDIR": str(scratch / "cells"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUTF8": "1",  # the locale of whoever runs it decides no outcome
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        # Older torch begins a pool for its compiler at import, and what has threads cannot fork.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Its own stay at one: a process with a second thread cannot be forked.
        **dict.fromkeys(THREADS, "1"),
    }
