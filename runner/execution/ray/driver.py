"""The Ray driver: send units to nodes, collect their events, resend what a lost node left."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.execution.events import LOOK, Done, Event, EventQueue, Lost, Unbuilt
from repromatrix.runner.execution.ray import arrival
from repromatrix.runner.execution.ray.connect import came_back
from repromatrix.runner.execution.ray.parcel import Parcel, pack
from repromatrix.runner.execution.ray.task import Arrived, Broke, Frames, Message, Unfit, kind
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.text import plural, shorten


@dataclass(kw_only=True, slots=True)
class Flight:
    """A unit that is sent to nodes until all of it has come back, or nobody can run it."""

    unit: Unit
    seen: dict[Cell, Observation] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Nodes that cannot run it, with the reason."""
    avoided: frozenset[str] = frozenset()
    """Nodes that it was kept away from when it was sent."""
    losses: list[str] = field(default_factory=list)
    node: str = ""
    kind: str = ""
    refused: str = ""
    """Why the node that it is on cannot run it."""
    broke: str = ""
    """How the process there ended before its work did."""
    frames: Frames = field(default_factory=Frames)

    def is_news(self, row: Observation) -> bool:
        """Say whether a row is the first of its cell, or what its repeats gave; and remember it."""
        before = self.seen.get(row.cell)
        if before is not None and row.repeats <= before.repeats:
            return False
        self.seen[row.cell] = row
        return True

    @property
    def left(self) -> Unit:
        """The unit without the cells that came back."""
        cells = tuple(cell for cell in self.unit.cells if cell not in self.seen)
        return Unit(environment=self.unit.environment, cells=cells)

    def unconfirmed(self, doubted: Callable[[Observation], bool]) -> tuple[Observation, ...]:
        """Return what came back, is doubted, and was not repeated before its node was lost."""
        return tuple(row for row in self.seen.values() if row.repeats == 1 and doubted(row))


_HOSTS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b[0-9a-f]{40,}\b")
_LOSSES = 3
"""How often a unit may lose its node before it is given up."""
_ENDING = 20.0
"""Seconds that canceled tasks have to end by themselves."""
_LEAVING = 5.0
"""Seconds after that until a cluster that does not answer is left to itself."""
_COMING = 10.0
"""Seconds for a message that is ready to come; it is small and came with the news of it."""
_DESERTED = 120.0
"""Seconds for which a cluster may have no node that can run anything, until a run gives it up."""
_NODES = 1.0
"""Seconds between two looks at which nodes there are."""
_SHOWN = 8
"""How much of a node's name is shown."""
_REASON = 160


class Cluster:
    """Runs units on the nodes of the cluster that this process is connected to."""

    def __init__(
        self, planned: Run, tell: Callable[[str], None], environ: Mapping[str, str]
    ) -> None:
        """`tell` gets what is to be said of nodes; `environ` goes with the run to every node."""
        self.planned = planned
        self.tell = tell
        self.environ = dict(environ)
        self.device = planned.terms.device
        self.events = EventQueue()
        self.stopping = threading.Event()
        self.waiting: deque[Flight] = deque()
        self.flying: dict[Any, Flight] = {}
        self.barred: dict[str, str] = {}
        """Nodes that can run nothing of ours, with the reason."""
        self.able: set[str] = set()
        """The nodes that there were at the last look."""
        self.looked = self.inhabited = time.monotonic()
        """When nodes were last looked for, and when there were any."""
        self.watching = threading.Thread(target=self._watch, daemon=True)

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        """Run units; closing the iterator cancels what is in flight, and keeps what has come."""
        self.waiting.extend(Flight(unit=unit) for unit in units)
        # Never call Ray from the main thread: it swallows what a signal handler raises there, and
        # Ctrl-C would be lost. A daemon: at its exit the interpreter waits for any other thread.
        thread = threading.Thread(target=self._drive, daemon=True)
        thread.start()
        try:
            yield from self.events.until_ended([thread])
        finally:
            self.stopping.set()
            if not came_back(thread, _ENDING + _LEAVING):
                self.tell("  the cluster does not answer; what runs there is left to it")

    def left(self) -> list[Observation]:
        """Return what was measured and not yet yielded when the events were closed."""
        return self.events.measured()

    def _drive(self) -> None:
        try:
            self._send_and_take()
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self.events.put(error)

    def _watch(self) -> None:
        """Look for nodes until the run stops.

        In a thread of its own: a head that does not answer holds up whoever asks it, and what came
        must be taken, and what is in flight be canceled, without it.
        """
        try:
            while not self.stopping.wait(_NODES):
                self._look()
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self.events.put(error)

    def _look(self) -> None:
        self.able = _able(self.device)
        self.looked = time.monotonic()
        if self.able:
            self.inhabited = self.looked

    def _send_and_take(self) -> None:
        import ray

        self._look()
        if not self.able:
            needed = "GPU" if self.device is Device.CUDA else "CPU"
            raise refuse(Problem("--ray", f"the cluster has no node with a {needed}"))
        ray.cloudpickle.register_pickle_by_value(arrival)
        self.name, archive = pack(self.planned.project)
        self.archive = ray.put(archive)
        gpus = int(self.device is Device.CUDA)
        # What a lost node leaves is sent elsewhere by us: only we know what came back.
        self.task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, num_returns="streaming")(
            arrival.arrive
        )
        self.watching.start()
        try:
            while (self.waiting or self.flying) and not self.stopping.is_set():
                self._send()
                if not self._take_ready(LOOK):
                    self._strand()
        finally:
            self._end()
            came_back(self.watching, _NODES)

    def _send(self) -> None:
        jobs = self.planned.terms.jobs
        while self.waiting and (not jobs or len(self.flying) < jobs):
            if self.stopping.is_set():
                return
            flight = self.waiting.popleft()
            flight.avoided = frozenset({*self.barred, *flight.refusals})
            if self._is_stranded(flight):
                self._unbuilt(flight)
                continue
            avoided = ",".join(sorted(flight.avoided))
            where = {"label_selector": {"ray.io/node-id": f"!in({avoided})"}} if avoided else {}
            parcel = Parcel(
                planned=self.planned, unit=flight.left, before=flight.unconfirmed(self._doubted)
            )
            task = self.task.options(**where)
            sent = (self.name, self.archive, parcel.packed(), kind(), self.environ)
            self.flying[task.remote(*sent)] = flight

    def _strand(self) -> None:
        """Give up units that no living node may run."""
        import ray

        # Ray itself waits for ever for a node that no longer exists.
        for task, flight in list(self.flying.items()):
            if not flight.node and self._is_stranded(flight):
                with contextlib.suppress(ValueError):  # it may have ended by now
                    ray.cancel(task, force=True)
                del self.flying[task]
                self._unbuilt(flight)
        if self._is_deserted():
            self._give_up()

    def _is_deserted(self) -> bool:
        """Say whether there has been no node for long that has what a task asks for."""
        return self.looked - self.inhabited > _DESERTED

    def _give_up(self) -> None:
        """Give up all that is left."""
        import ray

        needed = "GPU" if self.device is Device.CUDA else "CPU"
        reason = f"the cluster has had no node with a {needed} for {_DESERTED:.0f} s"
        self.tell(f"  {reason}; what is left is given up")
        for task in self.flying:
            with contextlib.suppress(ValueError):  # it may have ended by now
                ray.cancel(task, force=True)
        for flight in (*self.flying.values(), *self.waiting):
            self.events.put(Lost(unit=flight.left, reason=reason))
        self.flying.clear()
        self.waiting.clear()

    def _is_stranded(self, flight: Flight) -> bool:
        return bool(flight.avoided) and not self.able - flight.avoided

    def _doubted(self, row: Observation) -> bool:
        return self.planned.doubted(row, self.planned.environment(row))

    def _take_ready(self, seconds: float) -> bool:
        """Take what has come; say whether anything has."""
        import ray

        if not self.flying:
            return False
        ready, _ = ray.wait(list(self.flying), num_returns=1, timeout=seconds, fetch_local=False)
        for task in ready:
            self._take(task)
        return bool(ready)

    def _take(self, task: Any) -> None:  # noqa: ANN401 - Ray's generator has no type of its own
        import ray

        flight = self.flying[task]
        try:
            # Not `next(task)`: canceling ends the stream at once, and `next` then waits for the
            # end of the task, without a limit.
            coming = task._next_sync(timeout_s=LOOK)  # noqa: SLF001 - no public way has a limit
            if coming.is_nil():
                self.flying[task] = self.flying.pop(task)  # the others have their turn first
                return
            message: Message = ray.get(coming, timeout=_COMING)
        except StopIteration:
            del self.flying[task]
            if flight.refused:
                self._refused(flight)
            elif flight.broke:
                self._lost(flight, flight.broke)
            else:
                self.events.put(Done(unit=flight.unit))
        except ray.exceptions.RayError as error:
            del self.flying[task]
            self._lost(flight, _why(error))
        else:
            self._message(flight, message)

    def _message(self, flight: Flight, message: Message) -> None:
        match message:
            case Arrived():
                flight.node, flight.kind = message.node, message.kind
            case bytes():
                for event in flight.frames.add(message):
                    if isinstance(event, Unbuilt):
                        flight.refused = event.reason
                    elif not isinstance(event, Observation) or flight.is_news(event):
                        self.events.put(event)
            case Unfit():
                self.barred[flight.node] = message.reason
                flight.refused = message.reason
            case Broke():
                flight.broke = message.reason

    def _refused(self, flight: Flight) -> None:
        """Try another node; where all that there are refuse, the unit cannot be built."""
        name, reason = flight.unit.environment, flight.refused
        flight.refusals[flight.node] = reason
        node = f"node {flight.node[:_SHOWN]} ({flight.kind})"
        self.tell(f"  {node} cannot run {name}: {shorten(reason, _REASON)}")
        if self.able - self.barred.keys() - flight.refusals.keys():
            self._again(flight)
        else:
            self._unbuilt(flight)

    def _unbuilt(self, flight: Flight) -> None:
        reasons = flight.refusals or self.barred
        reason = "; ".join(dict.fromkeys(reasons.values()))
        self.events.put(Unbuilt(unit=flight.left, reason=reason))

    def _lost(self, flight: Flight, why: str) -> None:
        """Send what did not come back elsewhere, a few times."""
        flight.losses.append(why)
        if self.stopping.is_set():
            return
        if not flight.left.cells and not flight.unconfirmed(self._doubted):
            self.events.put(Done(unit=flight.unit))
            return
        where = f"node {flight.node[:_SHOWN]} ({flight.kind})" if flight.node else "a node"
        left = plural(len(flight.left.cells), "cell")
        lost = f"{where} was lost with {left} of {flight.unit.environment}"
        self.tell(f"  {lost}: {shorten(why, _REASON)}")
        if len(flight.losses) < _LOSSES:
            self._again(flight)
        else:
            whys = "; ".join(dict.fromkeys(flight.losses))
            reason = f"lost with its node {_LOSSES} times: {whys}"
            self.events.put(Lost(unit=flight.left, reason=reason))

    def _again(self, flight: Flight) -> None:
        if not self.stopping.is_set():
            # Where it was is forgotten; what came back stays, and where it was refused.
            flight.node, flight.kind, flight.refused, flight.broke = "", "", "", ""
            flight.frames = Frames()
            self.waiting.appendleft(flight)

    def _end(self) -> None:
        """Cancel what is in flight, and take what still comes of it."""
        import ray

        self.stopping.set()
        for task in self.flying:
            ray.cancel(task)
        deadline = time.monotonic() + _ENDING
        # Who has not ended by then is killed by its node once we have left the cluster. Not by
        # `force=True`: a task that ends in the same moment makes Ray abort this process.
        while self.flying and time.monotonic() < deadline:
            self._take_ready(LOOK)


def _able(device: Device) -> set[str]:
    """Return the nodes that are there and have what a task asks for."""
    import ray

    resources = ("CPU", "GPU") if device is Device.CUDA else ("CPU",)
    return {
        str(node["NodeID"])
        for node in ray.nodes()
        if node["Alive"] and all(node["Resources"].get(name, 0) >= 1 for name in resources)
    }


def _why(error: BaseException) -> str:
    """Return what Ray says of a loss, without what names a machine."""
    said = _HOSTS.sub("<host>", anonymous(" ".join(str(error).split())))
    return f"{type(error).__name__}: {shorten(said, _REASON)}"
