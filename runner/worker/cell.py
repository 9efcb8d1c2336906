"""One cell in one process: run the case as `python case.py` would, and report how it ended."""

from __future__ import annotations

import io
import linecache
import os
import signal
import sys
import threading
import time
import types
from typing import TYPE_CHECKING, TypedDict

from repromatrix.runner.worker import safe_text
from repromatrix.runner.worker.witness import Witness, exercised

if TYPE_CHECKING:
    from collections.abc import Callable

    from repromatrix.runner.worker.overlay import Overlay

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What libraries read at import as the number of their threads."""


class Read(TypedDict, total=False):
    """What the worker adds to a request where the runner sent it the text of the case."""

    code: str
    """The text of the case as the runner read it; without one its file is read."""


class Request(Read):
    """What the runner asks of the worker."""

    id: int
    case: str
    precision: str
    workaround: str
    device: str
    environ: dict[str, str]
    exercises: str
    fresh: bool
    witness: bool
    seconds: float
    memory: int
    disk: int
    """The most MiB of its files."""
    processes: int
    """The most processes and threads."""
    threads: int
    front: Overlay | None


class CellReport(TypedDict, total=False):
    """What a child says before it ends; a missing one is an outcome too."""

    exit: int | None
    error_class: str
    message: str
    traceback: str
    seconds: float
    exercised: str
    computed: dict[str, int]
    measured: dict[str, float]
    payload: str
    compiles: bool
    imported: dict[str, str]
    claimed: dict[str, str]


_own: list[str] = []


def remember() -> None:
    """List our modules before a fork, and what a report is made with.

    Not behind it: going through all names makes a child copy their pages.
    """
    _own[:] = [name for name in sys.modules if name.partition(".")[0] == "repromatrix"]
    safe_text.remember()


def run(request: Request, send: Callable[[bytes], None]) -> None:
    """Run the case of a request in this process, report, and end the process."""
    # Bound before the case runs: it may replace attributes of json and os.
    encode, mend = safe_text.Encoder().encode, safe_text.mend
    leave, say, who, me = os._exit, send, os.getpid, os.getpid()
    witness = Witness(loads=request["exercises"] == "load")
    _prepare(request)
    if request["witness"]:
        witness.watch()
    observe = _Observing(request, witness)
    report = observe.ended()
    if who() != me:  # the case forked, and this one is not asked
        leave(report["exit"] or 0)

    mend()
    say(encode({**report, **observe.seen(failed=report["exit"] != 0)}).encode())
    leave(0)


def _prepare(request: Request) -> None:
    os.environ.update(request["environ"])
    # A fresh interpreter has imported nothing that reads them yet.
    os.environ.update(dict.fromkeys(THREADS, str(request["threads"])))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(request["threads"])
    if not _own:
        remember()
    for name in _own:
        del sys.modules[name]
    sys.argv = [request["case"], request["precision"]]
    if request["workaround"]:
        sys.argv.append(request["workaround"])


class _Observing:
    """A case while it runs in this process; what that needs is bound before it begins."""

    def __init__(self, request: Request, witness: Witness) -> None:
        """Begin the clock."""
        self.request = request
        self.witness = witness
        self.module = types.ModuleType("__main__")
        self.module.__file__ = request["case"]
        self.clock = time.perf_counter
        self.wait: Callable[[], None] = threading._shutdown  # type: ignore[attr-defined]  # noqa: SLF001
        self.mask, self.how = signal.pthread_sigmask, signal.SIG_BLOCK
        self.every = signal.valid_signals()
        self.report: CellReport = {}
        self.began = self.clock()

    def ended(self) -> CellReport:
        """Run the case, wait for its threads, and say how it ended."""
        try:
            self._end()
            self.wait()  # as the interpreter does at its end, and whatever comes of it
        except BaseException:  # noqa: BLE001, S110 - as there
            pass
        # Hear no signal any more: a timer of the case may not end the report.
        try:
            self.mask(self.how, self.every)
        except BaseException:  # noqa: BLE001 - what a handler raised that was waiting
            self.mask(self.how, self.every)
        _flush()
        self.report["seconds"] = self.clock() - self.began
        return self.report

    def _end(self) -> None:
        try:
            self.report = self._run()
        except BaseException as error:  # noqa: BLE001 - it goes on to raise while it is read
            if not self.report:
                name = safe_text.called(type(error))
                self.report = {"exit": 1, "error_class": name, "message": ""}

    def _run(self) -> CellReport:
        sys.modules["__main__"] = self.module
        try:
            # dont_inherit: the case decides itself about `from __future__ import …`.
            code = compile(_source(self.request), self.request["case"], "exec", dont_inherit=True)
            exec(code, self.module.__dict__)  # noqa: S102 - running the case is the purpose
        except SystemExit as end:
            safe_text.mend()
            return _exit(end)
        except BaseException as error:  # noqa: BLE001 - whatever a case raises is its outcome
            safe_text.mend()
            return {
                "exit": 1,
                "error_class": safe_text.called(type(error)),
                "message": safe_text.text(error),
                "traceback": safe_text.frames(error),
            }
        return {"exit": 0}

    def seen(self, *, failed: bool) -> CellReport:
        """Return what was seen of the case beside its end."""
        asked, witness = self.request, self.witness
        payload = self.module.__dict__.get("payload")  # of a script of the sweep
        where = exercised(
            asked["precision"], asked["device"], asked["exercises"], witness, failed=failed
        )
        return {
            "exercised": where if asked["witness"] else "",
            "computed": dict(witness.computed),
            "compiles": witness.compiles,
            "measured": safe_text.numbers(self.module.__dict__.get("measured")),
            **({"payload": payload} if type(payload) is str else {}),
            "imported": safe_text.about("__file__"),
            "claimed": safe_text.about("__version__"),
        }


def _source(request: Request) -> bytes:
    """Return what is to be run; where it was sent, its lines are also those that others look up.

    The file may have been edited since it was read, and evidence is kept under what was read.
    """
    text, path = request.get("code"), request["case"]
    if text is None:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    lines = io.StringIO(text, newline=None).readlines()  # as Python counts them
    linecache.cache[path] = (len(text), None, lines, path)
    return text.encode()


def _flush() -> None:
    """Let go of what was printed: the process ends without the interpreter's own clean-up."""
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        try:  # noqa: SIM105 - it may have put anything in the place of contextlib, too
            getattr(sys, name).flush()
        except BaseException:  # noqa: BLE001, S110 - a case may have put anything there
            pass


def _exit(end: SystemExit) -> CellReport:
    match end.code:
        case None:
            return {"exit": 0}
        case int(code):
            return {"exit": code, "error_class": "SystemExit", "message": safe_text.text(code)}
        case other:
            return {"exit": 1, "error_class": "SystemExit", "message": safe_text.text(other)}
