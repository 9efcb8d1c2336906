"""The zygote as a process: import once, then fork a child per request (`zygote`)."""

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

from repromatrix.runner.worker import cell, cleanup, overlay, process_control, server
from repromatrix.runner.worker.cell_process import sender
from repromatrix.runner.worker.preload import Unsafe, preload
from repromatrix.runner.worker.process_control import ProcessList
from repromatrix.runner.worker.sandbox import SandboxFolders, enter
from repromatrix.runner.worker.server import ForkServer

if TYPE_CHECKING:
    from types import FrameType

    from repromatrix.runner.worker.cell import Request
    from repromatrix.runner.worker.sandbox import SandboxRequest

BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from repromatrix.runner.worker.main import main; main()"
)


def main() -> None:
    """Be a zygote (`serve`) or the one cell of a fresh interpreter (`cell`).

    Or try (`walls`) whether a cell can be walled in here.
    """
    root = sys.path.pop(0)  # a case must not find our modules, nor its neighbours
    mode, message = sys.argv[1:]
    boot = [sys.executable, "-c", BOOT, root]
    match mode:
        case "serve":
            _serve(json.loads(message), boot)
        case "cell":
            _cell(*json.loads(message))
        case "walls":
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


def _try(walls: SandboxRequest) -> None:
    enter(walls)
    rooms = SandboxFolders(walls)
    folder = tempfile.mkdtemp(dir=walls["scratch"])
    rooms.open()
    rooms.shut(folder)


def _serve(settings: dict[str, Any], boot: list[str]) -> None:
    os.set_inheritable(settings["answers"], False)  # noqa: FBT003
    walls = settings["walls"]
    roll = ProcessList(settings["group"], walled=bool(walls))
    if walls:
        enter(walls)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when to stop
    process_control.adopt_orphans()
    _hold(settings["scratch"])
    if not walls:  # within them we end with what made them, which ends with the runner
        _end_with_runner(settings["runner"], settings["scratch"])
    if _has_no_runner():
        cleanup.remove(settings["scratch"])
        os._exit(1)
    tempfile.tempdir = settings["cells"]
    if settings["front"]:
        overlay.put_in_front(settings["front"])
    zygote = ForkServer(settings, boot, SandboxFolders(walls) if walls else None, roll)
    try:
        seconds = preload(settings["preload"], settings["refused"]) if settings["fork"] else 0.0
    except Unsafe as error:
        zygote.say({"ready": False, "refused": error.what, "why": error.why})
        return
    cell.remember()
    gc.collect()
    gc.freeze()
    server.gather()
    if not walls:
        _outlive_runner()
    with contextlib.suppress(BrokenPipeError):  # killed just now: the loop sees it, too
        _greet(zygote, seconds)
    zygote.loop()
    # The runner does this too, unless it was killed.
    cleanup.remove(settings["scratch"])
    os._exit(0)  # tearing torch down takes longer than a cell


def _hold(scratch: str) -> None:
    """Keep the next run from sweeping our folder while we still sweep behind our cells."""
    process_control.hold(os.open(scratch, os.O_RDONLY))


def _end_with_runner(runner: int, scratch: str) -> None:
    """End at once when the runner is killed while we import: no cell is there to be swept."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        cleanup.remove(scratch)
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)
    process_control.interrupt_with_parent(runner)


def _has_no_runner() -> bool:
    """Say whether our input has ended: the runner was killed before we asked to hear of it."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # that it was hung up is told without being asked for
    return bool(poll.poll(0))


def _outlive_runner() -> None:
    """Let the end of our input tell that the runner is gone, so that cells are swept first."""
    process_control.outlive_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _greet(zygote: ForkServer, seconds: float) -> None:
    zygote.say(
        {
            "ready": True,
            "threads": process_control.threads(),
            "import_seconds": seconds,
            "python": ".".join(map(str, sys.version_info[:3])),
            "prefix": sys.prefix,
            "unenforceable": process_control.unenforceable(),
        }
    )
