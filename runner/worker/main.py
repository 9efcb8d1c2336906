"""The worker as a process: a fork server that imports once, then forks a child per request."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from repromatrix.runner.worker import cell, cleanup, overlay, process_control
from repromatrix.runner.worker.cell_process import sender
from repromatrix.runner.worker.preload import Unsafe, preload
from repromatrix.runner.worker.process_control import ProcessList
from repromatrix.runner.worker.sandbox import CellNamespaces, enter
from repromatrix.runner.worker.server import ForkServer, gather

if TYPE_CHECKING:
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
            _try(json.loads(message))
        case _:
            raise SystemExit(mode)


def _cell(written: int, channel: int, nonce: str) -> None:
    os.set_inheritable(channel, False)  # noqa: FBT003
    with open(written, "rb") as file:
        file.seek(0)
        request: Request = json.load(file)
    if request["front"]:
        overlay.put_in_front(request["front"])
    cell.run(request, sender(channel, nonce.encode()))


def _try(sandbox: SandboxRequest) -> None:
    enter(sandbox)
    namespaces = CellNamespaces(sandbox)
    folder = tempfile.mkdtemp(dir=sandbox["scratch"])
    namespaces.open()
    namespaces.shut(folder)


def _serve(settings: dict[str, Any], boot: list[str]) -> None:
    os.set_inheritable(settings["answers"], False)  # noqa: FBT003
    sandbox = settings["sandbox"]
    processes = ProcessList(settings["group"], sandboxed=bool(sandbox))
    if sandbox:
        enter(sandbox)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when to stop
    process_control.adopt_orphans()
    # The next run must not sweep our folder while we still sweep behind our cells.
    process_control.hold(os.open(settings["scratch"], os.O_RDONLY))
    if not sandbox:  # in one we end with bubblewrap, which ends with the runner
        _end_with_runner(settings["runner"], settings["scratch"])
    if _has_no_runner():
        cleanup.remove(settings["scratch"])
        os._exit(1)
    tempfile.tempdir = settings["cells"]
    if settings["front"]:
        overlay.put_in_front(settings["front"])
    server = ForkServer(settings, boot, CellNamespaces(sandbox) if sandbox else None, processes)
    try:
        if settings["fork"]:
            preload(settings["preload"], settings["refused"])
    except Unsafe as error:
        server.answer({"ready": False, "refused": error.what, "why": error.why})
        return
    cell.remember()
    gc.collect()
    gc.freeze()
    gather()
    if not sandbox:  # from now on the end of our input says that the runner is gone: cells first
        process_control.outlive_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(BrokenPipeError):  # the runner was killed: the loop sees it, too
        _greet(server)
    server.loop()
    # The runner does this too, unless it was killed.
    cleanup.remove(settings["scratch"])
    os._exit(0)  # tearing torch down takes longer than a cell


def _end_with_runner(runner: int, scratch: str) -> None:
    """End at once when the runner is killed while we import: no cell is there to be swept."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        cleanup.remove(scratch)
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)
    process_control.interrupt_with_parent(runner)


def _has_no_runner() -> bool:
    """Say whether our input has ended: the runner was killed before we asked for a signal."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # a hang-up is reported without being asked for
    return bool(poll.poll(0))


def _greet(server: ForkServer) -> None:
    server.answer(
        {
            "ready": True,
            "threads": process_control.threads(),
            "python": ".".join(map(str, sys.version_info[:3])),
        }
    )
