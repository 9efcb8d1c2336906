"""The zygote: import once, then fork a child per request and answer in JSON lines."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from runner.inside import cage, child, pages, tree
from runner.inside.preload import Unsafe, preload
from runner.inside.slot import Slot, sender

if TYPE_CHECKING:
    from runner.inside.child import Request

BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from runner.inside.main import main; main()"
)
_TICK = 50  # milliseconds between two looks at the memory of running cells


def main() -> None:
    """Be a zygote (`serve`) or the one cell of a fresh interpreter (`cell`)."""
    root = sys.path.pop(0)  # a case must not find our modules, nor its neighbours
    mode, message = sys.argv[1:]
    boot = [sys.executable, "-c", BOOT, root]
    match mode:
        case "serve":
            _serve(json.loads(message), boot)
        case "cell":
            _cell(*json.loads(message))
        case _:
            raise SystemExit(mode)


def _cell(request: Request, channel: int, nonce: str) -> None:
    os.set_inheritable(channel, False)  # noqa: FBT003
    if request["front"]:
        tree.put_in_front(request["front"])
    child.run(request, sender(channel, nonce.encode()))


def _serve(settings: dict[str, Any], boot: list[str]) -> None:
    answers = settings["answers"]
    os.set_inheritable(answers, False)  # noqa: FBT003
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when to stop
    cage.adopt_orphans()
    tempfile.tempdir = settings["cells"]
    if settings["front"]:
        tree.put_in_front(settings["front"])
    zygote = Zygote(answers, boot, settings["slots"])
    try:
        seconds = preload(settings["preload"], settings["refused"]) if settings["fork"] else 0.0
    except Unsafe as error:
        zygote.say({"ready": False, "refused": error.what, "why": error.why})
        return
    child.remember_own_modules()
    gc.collect()
    gc.freeze()
    pages.gather()
    zygote.say(
        {
            "ready": True,
            "threads": cage.threads(),
            "import_seconds": seconds,
            "python": ".".join(map(str, sys.version_info[:3])),
            "prefix": sys.prefix,
            "unenforceable": cage.unenforceable(),
        }
    )
    zygote.loop()
    # The runner does this too, unless it was killed.
    shutil.rmtree(settings["scratch"], ignore_errors=True)
    os._exit(0)  # tearing torch down takes longer than a cell


class Zygote:
    """Requests in, forks, answers out; one thread, which never computes."""

    def __init__(self, answers: int, boot: list[str], slots: int) -> None:
        """Begin with no cell in flight."""
        self.answers = answers
        self.boot = boot
        self.free = slots
        self.buffer = bytearray()
        self.waiting: list[Request] = []
        self.running: list[Slot] = []
        self.first_runs: dict[int, dict[str, Any]] = {}
        self.open = True

    def say(self, message: dict[str, Any]) -> None:
        """Write one answer."""
        rest = json.dumps(message).encode() + b"\n"
        while rest:
            rest = rest[os.write(self.answers, rest) :]

    def loop(self) -> None:
        """Work until the runner closes our input or is gone; then end everything that is left."""
        with contextlib.suppress(BrokenPipeError):
            while self.open:
                self._start()
                self._wait()
                self._tend()
        for slot in self.running:
            cage.end_group(slot.pid)
        cage.sweep(set())

    def _start(self) -> None:
        while self.waiting and len(self.running) < self.free:
            self.running.append(Slot(self.waiting.pop(0), self.boot))

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        for slot in self.running:
            for descriptor in slot.descriptors():
                poll.register(descriptor, select.POLLIN)
        ready = dict(poll.poll(_TICK if self.running else None))
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
        for slot in [slot for slot in self.running if slot.tend()]:
            self.running.remove(slot)
            self._answer(slot.request, slot.finish(self._families()))

    def _families(self) -> set[int]:
        return {pid for slot in self.running for pid in (slot.pid, *slot.family)}

    def _answer(self, request: Request, answer: dict[str, Any]) -> None:
        """Answer, except for a case that compiles: it is judged by a second run without witness."""
        first = self.first_runs.pop(request["id"], None)
        if first is not None:
            seen = ("computed", "exercised", "compiles")
            merged = {**answer, **{key: first[key] for key in seen if key in first}}
            if merged["outcome"] == "passes" and request["precision"] != "fp32":
                merged["exercised"] = merged.get("exercised") or "no"  # a pass needs a witness
            self.say(merged)
        elif request["witness"] and answer.get("compiles"):
            self.first_runs[request["id"]] = answer
            self.waiting.insert(0, {**request, "witness": False})
        else:
            self.say(answer)
