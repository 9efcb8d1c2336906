"""One running cell as its zygote sees it: pipes, deadline, memory, and how it ended."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.inside import cage, child, clearing, cuda, disk
from runner.inside.ending import CROWD, classify
from runner.inside.pipes import Pipes, sender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from runner.inside.child import Request
    from runner.inside.walls import Rooms

_HIGH = 200
_JUDGED = frozenset({"passes", "declines"})


@dataclass(frozen=True)
class Surroundings:
    """What a zygote gives each of its cells."""

    boot: list[str]
    """How a fresh interpreter of ours is started."""
    rooms: Rooms | None
    """What makes walls around it, if there are any."""
    rest: Callable[[Slot, int], set[int]]
    """Who is of no other cell, where there are more than a number of processes in all."""
    held: Callable[[], AbstractContextManager[None]]
    """Lets nobody fork for a while, where the system can do that."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By path, the cases as the runner read them."""


class Slot:
    """A cell in flight."""

    def __init__(self, request: Request, given: Surroundings) -> None:
        """Start the cell."""
        self.request = request
        self.given = given
        self.stopped = ""
        self.first = 0
        """The first process of its room, with which all others end; 0 without walls."""
        self.disturbed = False
        """Whether a crowd was ended while it ran, which may have cost it a process or a thread."""
        self.family: set[int] = set()
        """Every process seen in its tree, so that a neighbour's sweep spares its orphans."""
        self.peak = 0
        self.folder = tempfile.mkdtemp(prefix="cell-")
        self.fresh = request["fresh"] or not _forks_safely(request["device"])
        self.baseline = 0 if self.fresh else cage.resident(os.getpid())
        self.began = time.monotonic()
        self.pipes = Pipes()
        try:
            self.pid = self._start()
        except OSError:
            self._give_up()
            raise
        finally:
            self.pipes.begin()
        self.ended = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1

    def _start(self) -> int:
        parent, rooms = os.getpid(), self.given.rooms
        self.first = rooms.open() if rooms else 0
        try:
            pid = os.fork()
            if pid:
                return pid
        finally:
            if rooms and os.getpid() == parent:
                rooms.leave()
        leave = os._exit  # a case may put anything in its place
        try:
            self._inside(parent)
        except BaseException:  # noqa: BLE001 - whatever a case broke
            os.write(2, traceback.format_exc().encode())
        finally:
            leave(1)  # a child must never return into the zygote's loop

    def _give_up(self) -> None:
        """Leave nothing of a cell that could not be started."""
        if self.first:
            cage.kill([self.first])
            os.waitpid(self.first, 0)
        self.pipes.close()
        clearing.remove(self.folder)

    def _inside(self, parent: int) -> None:
        os.setsid()
        if self.given.rooms is None:
            cage.die_with_parent(parent)
        else:
            self._shut(self.given.rooms)
        cage.adopt_orphans()  # what a case lets go of still counts as its own
        cage.keep_no_core()
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
        asked = self._asked()
        if self.fresh:
            os.set_inheritable(channel, True)  # noqa: FBT003
            message = json.dumps([_written(asked, self.folder), channel, self.pipes.nonce.decode()])
            os.execv(sys.executable, [*self.given.boot, "cell", message])  # noqa: S606 - our own boot
        _close_all_but(channel)
        child.run(asked, sender(channel, self.pipes.nonce))

    def _asked(self) -> Request:
        """Return the request with the text of its case, if the runner has read it."""
        text = self.given.texts.get(self.request["case"])
        return self.request if text is None else {**self.request, "code": text}

    def _shut(self, rooms: Rooms) -> None:
        """Shut this process in; a machine that cannot says nothing about the case."""
        cage.die_with_outer()  # our number is of another namespace than our parent's
        try:
            rooms.shut(self.folder)
        except OSError as error:
            told = json.dumps({"walls": str(error)}).encode()
            sender(self.pipes.report_end, self.pipes.nonce)(told)
            os._exit(1)

    @property
    def is_crowd(self) -> bool:
        """Say whether it was stopped for having too many processes."""
        return self.stopped == CROWD

    def speaking(self) -> list[int]:
        """Return the descriptors that something may still come from."""
        every = (self.pipes.reports, self.pipes.outputs, self.ended)
        return [number for number in every if number >= 0 and number not in self.pipes.silent]

    def tend(self) -> bool:
        """Read what there is, hold the bounds, and say whether the cell has ended."""
        self.pipes.drain()
        # WNOWAIT leaves the zombie: its number cannot be used again before the sweep.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, self.pid, flags) is not None
        if not self.stopped:
            self._hold_bounds(ended=ended)
        return ended

    def _hold_bounds(self, *, ended: bool) -> None:
        most = self.request["processes"]
        # Looked at first, because it is quick: among a crowd a zygote has little time.
        if len(self.given.rest(self, most)) > most:
            self._stop(CROWD)
        elif ended:  # one that ended in time is not too late because it is looked at late
            return
        elif time.monotonic() - self.began > self.request["seconds"]:
            self._stop("times-out")
        else:
            self._hold_tree(self.tree(), most)

    def _hold_tree(self, tree: set[int], most: int) -> None:
        held = sum(max(0, cage.resident(pid) - self.baseline) for pid in tree)
        self.peak = max(self.peak, held)
        if sum(map(cage.tasks, tree)) > most:
            self._stop(CROWD)
        elif held > self.request["memory"] << 20:
            self._stop("out-of-memory")

    def tree(self) -> set[int]:
        """Return the processes of the cell, also those whose own parents have ended."""
        tops = [self.pid, *cage.adopted(self.pid, self.family)]
        if self.first:
            tops.append(self.first)
        tree = {pid for top in tops for pid in (top, *cage.descendants(top))}
        self.family.update(tree)
        return tree

    def _stop(self, why: str) -> None:
        self.stopped = why
        if why == CROWD:
            with self.given.held():
                if self.first:
                    cage.kill([self.first])
                cage.end_every(lambda: self.given.rest(self, 0))
        self.end()

    def end(self) -> None:
        """Kill all that is in the cell, at once where it has a room."""
        if self.first:
            cage.kill([self.first])
        cage.end_tree([self.pid, *cage.adopted(self.pid, self.family)])

    def finish(self, spared: set[int]) -> dict[str, Any]:
        """Sweep behind the cell and return the answer for the runner; its folder is left."""
        self.end()
        cage.end_group(self.pid)
        _, status, used = os.wait4(self.pid, 0)
        # What it held between two looks.
        self.peak = max(self.peak, used.ru_maxrss * cage.MAXRSS_UNIT - self.baseline)
        if self.first:
            os.waitpid(self.first, 0)
        cage.sweep(spared)
        self.pipes.drain()
        self.pipes.close()
        if self.ended >= 0:
            os.close(self.ended)
        full = disk.is_full(self.folder)
        answer = classify(self.stopped, status, self.pipes.report())
        if answer["outcome"] not in _JUDGED and (full or disk.is_told(answer.get("message", ""))):
            answer["roomless"] = True
        wall = time.monotonic() - self.began
        peak = -(-self.peak >> 20)  # rounded up: what was stopped is above its limit
        limit = self.request["memory"]
        said = {"wall": wall, "peak": peak, "limit": limit, "output": self.pipes.said()}
        return {**answer, "id": self.request["id"], **said}


def _forks_safely(device: str) -> bool:
    """Say whether this process may be forked: with one thread, and before CUDA is initialised."""
    return cage.threads() == 1 and not (device == "cuda" and cuda.is_initialised())


def _close_all_but(channel: int) -> None:
    os.closerange(3, channel)
    os.closerange(channel + 1, channel + 256)


def _written(request: Request, folder: str) -> int:
    """Write a request where a fresh interpreter reads it: an argument has a limit."""
    file, path = tempfile.mkstemp(dir=folder)
    os.unlink(path)  # noqa: PTH108
    os.write(file, json.dumps(request).encode())
    os.set_inheritable(file, True)  # noqa: FBT003
    return file
