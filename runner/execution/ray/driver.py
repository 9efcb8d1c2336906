"""The Ray driver: send units to nodes, collect their events, resend what a lost node left."""

from __future__ import annotations

import contextlib
import pickle
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.execution.events import LOOK, Done, Event, EventQueue, Lost, Unbuilt
from repromatrix.runner.execution.ray.connect import came_back
from repromatrix.runner.execution.ray.parcel import Parcel
from repromatrix.runner.execution.ray.task import BrokenError, UnfitError, kind, measure
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.text import plural, shorten


@dataclass(kw_only=True, slots=True)
class Flight:
    """A unit that is sent to nodes until all of it has come back, or no node can run it."""

    unit: Unit
    seen: dict[Cell, Observation] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Nodes that cannot run it, with the reason."""
    losses: list[str] = field(default_factory=list)
    node: str = ""
    kind: str = ""

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
"""Seconds for an event that is ready to come; it is small and came with the news of it."""
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
        """Nodes that cannot run our cells, with the reason."""
        self.able: set[str] = set()
        """The nodes that there were at the last look."""
        self.looked = self.inhabited = time.monotonic()
        """When nodes were last looked for, and when there were any."""

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        """Run units; closing the iterator cancels what is in flight, and keeps what has come."""
        self.waiting.extend(Flight(unit=unit) for unit in units)
        # Never call Ray from the main thread: it swallows what a signal handler raises there, and
        # Ctrl-C would be lost. A daemon: at its exit the interpreter waits for any other thread.
        thread = threading.Thread(target=self._guarded, args=(self._drive,), daemon=True)
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

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self.events.put(error)

    def _drive(self) -> None:
        """Send units and take their events until none is left or the run stops."""
        import ray

        self._look()
        if not self.able:
            raise refuse(Problem("--ray", f"the cluster has no node with a {self._needed}"))
        # A head that does not answer holds up the thread that asks; what came must be taken, and
        # what is in flight be canceled, without it.
        watching = threading.Thread(target=self._guarded, args=(self._watch,), daemon=True)
        watching.start()
        gpus = int(self.device is Device.CUDA)
        # What a lost node leaves is sent elsewhere by us: only we know what came back.
        self.task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, num_returns="streaming")(
            measure
        )
        try:
            while (self.waiting or self.flying) and not self.stopping.is_set():
                self._send()
                ready = []
                if self.flying:
                    ready, _ = ray.wait([*self.flying], timeout=LOOK, fetch_local=False)
                for task in ready:
                    self._take(task)
                if not ready:
                    self._strand()
        finally:
            self._end()
            came_back(watching, _NODES)

    @property
    def _needed(self) -> str:
        return "GPU" if self.device is Device.CUDA else "CPU"

    def _watch(self) -> None:
        while not self.stopping.wait(_NODES):
            self._look()

    def _look(self) -> None:
        self.able = _able(self.device)
        self.looked = time.monotonic()
        if self.able:
            self.inhabited = self.looked

    def _send(self) -> None:
        jobs = self.planned.terms.jobs
        while self.waiting and not self.stopping.is_set() and not 0 < jobs <= len(self.flying):
            flight = self.waiting.popleft()
            avoided = {*self.barred, *flight.refusals}
            if self._is_stranded(flight):
                self._unbuilt(flight)
                continue
            labels = {"ray.io/node-id": f"!in({','.join(sorted(avoided))})"} if avoided else None
            unconfirmed = flight.unconfirmed(self._doubted)
            parcel = Parcel(planned=self.planned, unit=flight.left, before=unconfirmed)
            task = self.task.options(**({"label_selector": labels} if labels else {}))
            self.flying[task.remote(parcel.packed(), kind(), self.environ)] = flight

    def _strand(self) -> None:
        """Give up what no living node may run: Ray itself would wait for one for ever."""
        import ray

        deserted = self.looked - self.inhabited > _DESERTED
        reason = f"the cluster has had no node with a {self._needed} for {_DESERTED:.0f} s"
        for task, flight in list(self.flying.items()):
            if deserted or (not flight.node and self._is_stranded(flight)):
                with contextlib.suppress(ValueError):  # it may have ended by now
                    ray.cancel(task, force=True)
                del self.flying[task]
                if deserted:
                    self.waiting.appendleft(flight)
                else:
                    self._unbuilt(flight)
        if deserted:
            self.tell(f"  {reason}; what is left is given up")
            for flight in self.waiting:
                self.events.put(Lost(unit=flight.left, reason=reason))
            self.waiting.clear()

    def _is_stranded(self, flight: Flight) -> bool:
        avoided = {*self.barred, *flight.refusals}
        return bool(avoided) and not self.able - avoided

    def _doubted(self, row: Observation) -> bool:
        return self.planned.doubted(row, self.planned.environment(row))

    def _take(self, task: Any) -> None:  # noqa: ANN401 - Ray's generator has no type of its own
        import ray

        flight = self.flying.pop(task)
        try:
            message = ray.get(next(task), timeout=_COMING)
        except StopIteration:
            self.events.put(Done(unit=flight.unit))
        except UnfitError as error:
            self.barred[flight.node] = _said(error)
            self._refused(flight, _said(error))
        except BrokenError as error:
            self._lost(flight, _said(error))
        except ray.exceptions.RayError as error:
            said = _HOSTS.sub("<host>", anonymous(" ".join(str(error).split())))
            self._lost(flight, f"{type(error).__name__}: {shorten(said, _REASON)}")
        else:
            if isinstance(message, bytes):
                event: Event = pickle.loads(message)  # noqa: S301 - our own node sent it
                if isinstance(event, Unbuilt):
                    self._refused(flight, event.reason)
                    return
                if not isinstance(event, Observation) or flight.is_news(event):
                    self.events.put(event)
            else:
                flight.node, flight.kind = message
            self.flying[task] = flight  # behind the others, which have their turn first

    def _refused(self, flight: Flight, reason: str) -> None:
        """Try another node; where all that there are refuse, the unit cannot be built."""
        flight.refusals[flight.node] = reason
        node = f"node {flight.node[:_SHOWN]} ({flight.kind})"
        self.tell(f"  {node} cannot run {flight.unit.environment}: {shorten(reason, _REASON)}")
        if self._is_stranded(flight):
            self._unbuilt(flight)
        else:
            self._again(flight)

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
            flight.node, flight.kind = "", ""
            self.waiting.appendleft(flight)

    def _end(self) -> None:
        """Cancel what is in flight, and take what still comes of it."""
        import ray

        self.stopping.set()
        for task in self.flying:
            ray.cancel(task)
        # What has not ended by then is killed by its node once we have left the cluster. Not by
        # `force=True`: a task that ends in the same moment makes Ray abort this process.
        ends = {task.completed(): task for task in self.flying}
        ended, _ = ray.wait([*ends], num_returns=len(ends), timeout=_ENDING) if ends else ([], [])
        for task in map(ends.__getitem__, ended):
            while task in self.flying:
                self._take(task)


def _said(error: BaseException) -> str:
    """Return the text that a task raised, which Ray wraps in one of its own."""
    return str(getattr(error, "cause", error))


def _able(device: Device) -> set[str]:
    """Return the nodes that are there and have what a task asks for."""
    import ray

    resources = ("CPU", "GPU") if device is Device.CUDA else ("CPU",)
    return {
        str(node["NodeID"])
        for node in ray.nodes()
        if node["Alive"] and all(node["Resources"].get(name, 0) >= 1 for name in resources)
    }
