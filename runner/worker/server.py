"""The fork server: requests in, a forked child per cell, reports out."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
from typing import TYPE_CHECKING, Any

from repromatrix.runner.worker import cleanup, process_control
from repromatrix.runner.worker.cell_process import CellProcess, CellSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from repromatrix.runner.worker.cell import Request
    from repromatrix.runner.worker.process_control import ProcessList
    from repromatrix.runner.worker.sandbox import CellNamespaces

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
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - pathlib is not needed otherwise
        for line in maps:
            addresses, rights, *rest = line.split()
            if "w" not in rights or (len(rest) > 3 and rest[3].startswith("/")):  # noqa: PLR2004
                continue
            first, last = (int(text, 16) for text in addresses.split("-"))
            start, end = (first + _LARGE - 1) & -_LARGE, last & -_LARGE
            if start < end:
                yield start, end


_TICK = 50  # milliseconds between two looks at the memory of running cells
_CLEARING = 0.02  # seconds for which no cell is looked after


class ForkServer:
    """Requests in, forks, answers out; one thread, which never computes."""

    def __init__(
        self,
        settings: dict[str, Any],
        boot: list[str],
        namespaces: CellNamespaces | None,
        processes: ProcessList,
    ) -> None:
        """Begin with no cell in flight; `boot` is how a fresh interpreter of ours is started."""
        self.answers: int = settings["answers"]
        self.free: int = settings["slots"]
        self.shared: list[str] = settings["shared"]
        """Folders that every cell finds empty."""
        self.processes = processes
        with open(settings["texts"]) as file:  # noqa: PTH123
            self.settings = CellSettings(
                boot, namespaces, self._rest, processes.held, json.load(file)
            )
        self.buffer = bytearray()
        self.waiting: list[Request] = []
        self.running: list[CellProcess] = []
        self.first_runs: dict[int, dict[str, Any]] = {}
        self.leftovers = cleanup.Leftovers()
        self.alone: set[int] = set()
        self.open = True

    def answer(self, message: dict[str, Any]) -> None:
        """Write one answer."""
        rest = json.dumps(message).encode() + b"\n"
        while rest:
            rest = rest[os.write(self.answers, rest) :]

    def loop(self) -> None:
        """Work until the runner closes our input or ends; then end everything that is left."""
        with contextlib.suppress(BrokenPipeError):
            while self.open:
                self._start()
                self._wait()
                self._tend()
                self.leftovers.clear(_CLEARING)
        with self.processes.held():
            for cell in self.running:
                cell.end()
            process_control.sweep(set())

    def _start(self) -> None:
        while self.waiting and len(self.running) < self._most() and self._is_shared_clean():
            request = self.waiting[0]
            try:
                self.running.append(CellProcess(request, self.settings))
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
        ready = dict(poll.poll(0 if self.leftovers else idle))
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
        if len(self.running) > 1 and any(cell.is_crowd for cell in self.running):
            for cell in self.running:
                cell.disturbed = True
        for cell in ended:
            self.running.remove(cell)
            spared = {p for other in self.running for p in (other.pid, other.first, *other.family)}
            answer = cell.finish(spared)
            self.leftovers.take(cell.folder)
            if cell.disturbed:
                self._again(cell)
            else:
                self._answer(cell.request, answer)

    def _again(self, cell: CellProcess) -> None:
        """Run a cell once more; one that may have been a crowd alone, to be sure whose it was."""
        if cell.is_crowd:
            self.alone.add(cell.request["id"])
            self.waiting.append(cell.request)
        else:
            self.waiting.insert(0, cell.request)

    def _rest(self, cell: CellProcess, most: int) -> set[int]:
        """Return the processes of no other cell, if there are more than `most` in all; else none.

        A process that left its cell's tree and session is still among them.
        """
        every = self.processes.all()
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
