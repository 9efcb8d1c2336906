"""The worker as a process: a fork server that imports once, then forks a child per request."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from repromatrix.runner.worker import cleanup, overlay, process_control
from repromatrix.runner.worker.cell import remember, run
from repromatrix.runner.worker.cell_process import CROWD, CellProcess, sender
from repromatrix.runner.worker.sandbox import CellNamespaces, enter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from repromatrix.runner.worker.cell import Request
    from repromatrix.runner.worker.sandbox import SandboxRequest

BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from repromatrix.runner.worker.main import main; main()"
)


def main() -> None:
    """Be a worker (`serve`), the one cell of a fresh interpreter (`cell`), or try a `sandbox`."""
    root = sys.path.pop(0)  # a case must not find our modules, nor its neighbours
    mode, message = sys.argv[1:]
    boot = [sys.executable, "-c", BOOT, root]
    match mode:
        case "serve":
            _serve(json.loads(message), boot)
        case "cell":
            _cell(*json.loads(message))
        case "sandbox":
            sandbox: SandboxRequest = json.loads(message)
            enter(sandbox)
            namespaces = CellNamespaces(sandbox)
            folder = tempfile.mkdtemp(dir=sandbox["scratch"])
            namespaces.open()
            namespaces.shut(folder)
        case _:
            raise SystemExit(mode)


def _cell(written: int, channel: int, nonce: str) -> None:
    os.set_inheritable(channel, False)  # noqa: FBT003
    with open(written, "rb") as file:
        file.seek(0)
        request: Request = json.load(file)
    if request["front"]:
        overlay.put_in_front(request["front"])
    run(request, sender(channel, nonce.encode()))


def _serve(settings: dict[str, Any], boot: list[str]) -> None:
    os.set_inheritable(settings["answers"], False)  # noqa: FBT003
    sandbox = settings["sandbox"]
    process_control.enter_group(settings["entrance"])
    if sandbox:
        enter(sandbox)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when to stop
    process_control.adopt_orphans()
    # The next run must not sweep our folder while we still sweep behind our cells.
    process_control.hold(os.open(settings["scratch"], os.O_RDONLY))
    if not sandbox:  # in one we end with bubblewrap, which ends with the runner
        _end_with_runner(settings["scratch"])
    if _has_no_runner():
        cleanup.remove(settings["scratch"])
        os._exit(1)
    tempfile.tempdir = settings["cells"]
    if settings["front"]:
        overlay.put_in_front(settings["front"])
    server = ForkServer(settings, boot, CellNamespaces(sandbox) if sandbox else None)
    gc.disable()  # while modules are imported there is next to no garbage to look for
    try:
        if settings["fork"]:
            preload(**settings["preload"], refused=settings["refused"])
    except Unsafe as error:
        server.answer({"ready": False, "refused": error.what, "why": error.why})
        return
    remember()
    gc.enable()
    gc.collect()
    gc.freeze()
    gather()
    if not sandbox:  # from now on the end of our input says that the runner is gone: cells first
        process_control.signal_at_end_of_parent(0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(BrokenPipeError):  # the runner was killed: the loop sees it, too
        python = ".".join(map(str, sys.version_info[:3]))
        server.answer({"ready": True, "threads": process_control.threads(), "python": python})
    server.loop()
    # The runner does this too, unless it was killed.
    cleanup.remove(settings["scratch"])
    os._exit(0)  # tearing torch down takes longer than a cell


def _end_with_runner(scratch: str) -> None:
    """End at once when the runner is killed while we import: no cell is there to be swept."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        cleanup.remove(scratch)
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)
    process_control.signal_at_end_of_parent(signal.SIGTERM)


def _has_no_runner() -> bool:
    """Say whether our input has ended: the runner was killed before we asked for a signal."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # a hang-up is reported without being asked for
    return bool(poll.poll(0))


class Unsafe(Exception):  # noqa: N818 - it says what the process is now, not what went wrong
    """An import failed and left submodules behind: this process may not be forked any more."""

    def __init__(self, what: str, why: str) -> None:
        """Keep what failed, so that the next attempt leaves it out."""
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


def preload(modules: list[str], names: dict[str, list[str]], refused: list[str]) -> None:
    """Import modules in order, and per package the names that cases take, less what failed before.

    Raises Unsafe at the first failure: the caller starts again in a new process without it,
    so that no half-imported package is visible to any case.
    """
    for module in modules:
        if module not in refused:
            with _unsafe(module):
                # One that this environment does not have is the case's own finding.
                if _is_there(module):
                    importlib.import_module(module)
    for module, wanted in names.items():
        imported = sys.modules.get(module)
        offered = set(dir(imported))
        for name in wanted:
            # A name that this release does not have is the case's own finding, not ours.
            if name in offered and f"{module}.{name}" not in refused:
                with _unsafe(f"{module}.{name}"):
                    getattr(imported, name)
    # The first model saved or loaded fills a table of 900 patterns, which are constants. To save
    # and load one here gains no more, and leaves a thread, files and warnings that were shown.
    look_up = getattr(sys.modules.get(TABLE), "get_checkpoint_conversion_mapping", None)
    if look_up is not None and TABLE not in refused:
        with _unsafe(TABLE):
            look_up("")


TABLE = "transformers.conversion_mapping"


@contextlib.contextmanager
def _unsafe(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        raise Unsafe(what, f"{type(error).__name__}: {error}"[:500]) from error


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:  # finding a module imports the packages above it
        if error.name and f"{module}.".startswith(f"{error.name}."):
            return False
        raise


_COLLAPSE = 25
"""MADV_COLLAPSE of <linux/mman.h>, since Linux 6.1; elsewhere it fails and nothing changes."""
_LARGE = 1 << 21


def gather() -> None:
    """Gather this process's own memory into large pages where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in list(_anonymous()):
            advise(start, end - start, _COLLAPSE)


def _anonymous() -> Iterator[tuple[int, int]]:
    """Yield the writable regions that belong to no file, cut to whole large pages."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - pathlib is not needed otherwise
        for line in maps:
            addresses, rights, *rest = line.split()
            if "w" not in rights or (len(rest) > 3 and rest[3].startswith("/")):  # noqa: PLR2004
                continue
            first, last = (int(text, 16) for text in addresses.split("-"))
            start, end = (first + _LARGE - 1) & -_LARGE, last & -_LARGE
            if start < end:
                yield start, end


_TICK = 50  # milliseconds between two looks at the memory of running cells


class ForkServer:
    """Requests in, forks, answers out; one thread, which never computes."""

    def __init__(
        self, settings: dict[str, Any], boot: list[str], namespaces: CellNamespaces | None
    ) -> None:
        """Begin with no cell in flight; `boot` is how a fresh interpreter of ours is started."""
        self.boot = boot
        self.namespaces = namespaces
        self.send = sender(settings["answers"])
        self.free: int = settings["slots"]
        self.shared: list[str] = settings["shared"]
        """Folders that every cell finds empty."""
        self.listing: str = settings["listing"]
        with open(settings["texts"], encoding="utf-8") as file:  # noqa: PTH123
            self.texts: dict[str, str] = json.load(file)
        """By path, the cases as the runner read them."""
        self.buffer = bytearray()
        self.waiting: list[Request] = []
        self.running: list[CellProcess] = []
        self.first_runs: dict[int, dict[str, Any]] = {}
        self.alone: set[int] = set()
        self.open = True

    def answer(self, message: dict[str, Any]) -> None:
        """Write one answer."""
        self.send(json.dumps(message).encode() + b"\n")

    def loop(self) -> None:
        """Work until the runner closes our input or ends; then end everything that is left."""
        with contextlib.suppress(BrokenPipeError):
            while self.open:
                self._start()
                self._wait()
                self._tend()
        for cell in self.running:
            cell.end()
        process_control.sweep(set())

    def _start(self) -> None:
        while self.waiting and len(self.running) < self._most() and self._is_shared_clean():
            request = self.waiting[0]
            try:
                self.running.append(CellProcess(request, self))
            except BlockingIOError:  # a neighbour has taken all there is, for a moment
                if not self.running:
                    raise
                return
            except OSError as error:
                if error.errno not in cleanup.FULL:
                    raise
                self.answer({"id": request["id"], "outcome": "fails", "disk_full": True})
            self.waiting.pop(0)

    def _most(self) -> int:
        """Return how many cells may run with the next one: one if it, or what runs, is alone."""
        begun = {cell.request["id"] for cell in self.running} & self.alone
        return 1 if begun or self.waiting[0]["id"] in self.alone else self.free

    def _is_shared_clean(self) -> bool:
        """Say whether what cells share is empty; while a cell runs it cannot be emptied."""
        littered = [folder for folder in self.shared if cleanup.has_something(folder)]
        if self.running:
            return not littered
        for folder in littered:
            cleanup.empty(folder)
        return True

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        for cell in self.running:
            for descriptor in cell.speaking():
                poll.register(descriptor, select.POLLIN)
        idle = _TICK if self.running else None
        ready = dict(poll.poll(idle))
        if 0 in ready:
            self._read()

    def _read(self) -> None:
        chunk = os.read(0, 1 << 16)
        self.open = bool(chunk)
        self.buffer += chunk
        *lines, rest = self.buffer.split(b"\n")
        self.buffer = bytearray(rest)
        for message in map(json.loads, lines):
            if "slots" in message:
                self.free = message["slots"]
            else:
                self.waiting.append(message)

    def _tend(self) -> None:
        ended = [cell for cell in self.running if cell.tend()]
        if len(self.running) > 1 and any(cell.stopped == CROWD for cell in self.running):
            for cell in self.running:
                cell.disturbed = True
        for cell in ended:
            self.running.remove(cell)
            spared = {p for other in self.running for p in (other.pid, other.first, *other.family)}
            answer = cell.finish(spared)
            if not cell.disturbed:
                self._answer(cell.request, answer)
            elif cell.stopped == CROWD:  # run alone, to be sure whose it was
                self.alone.add(cell.request["id"])
                self.waiting.append(cell.request)
            else:
                self.waiting.insert(0, cell.request)
            cleanup.remove(cell.folder)

    def rest(self, cell: CellProcess, most: int) -> set[int]:
        """Return the processes of no other cell, if there are more than `most` in all; else none.

        A process that left its cell's tree and session is still among them.
        """
        every = process_control.below(self.listing, sandboxed=self.namespaces is not None)
        if len(every) <= most:
            return set()
        others = [other for other in self.running if other is not cell]
        return every - {pid for other in others for pid in other.tree()}

    def _answer(self, request: Request, answer: dict[str, Any]) -> None:
        """Answer, except for a case that compiles: it is judged by a second run without witness."""
        first = self.first_runs.pop(request["id"], None)
        if first is not None:
            seen = ("computed", "exercised", "compiles")
            merged = {**answer, **{key: first[key] for key in seen if key in first}}
            if merged["outcome"] == "passes" and request["precision"] != "fp32":
                merged["exercised"] = merged.get("exercised") or "no"  # a pass needs a witness
            self.answer(merged)
        elif request["witness"] and answer.get("compiles"):
            self.first_runs[request["id"]] = answer
            self.waiting.insert(0, {**request, "witness": False})
        else:
            self.answer(answer)
