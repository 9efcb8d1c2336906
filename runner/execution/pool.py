"""The local pool: one thread per zygote, each busy with one environment at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from repromatrix.runner import subprocesses
from repromatrix.runner.environments.building import NoGpuBuildError, UnbuildableError
from repromatrix.runner.execution.batch import Batch, Floor
from repromatrix.runner.execution.events import (
    Done,
    Event,
    Left,
    Lost,
    NoTimeError,
    Phase,
    Ready,
    Terms,
    Unbuilt,
    measured,
)
from repromatrix.runner.execution.worker_client import Worker
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.worker import cleanup

_LOOK = 0.1
"""Seconds between two looks at what has ended."""


class Pool:
    """Runs units and yields what happens, as it happens, to the thread that iterates."""

    def __init__(
        self,
        terms: Terms,
        cases: Mapping[str, Case],
        prepare: Callable[[Unit], Ready],
        doubted: Callable[[Observation, Environment], bool],
    ) -> None:
        """`prepare` builds an environment; `doubted` says which observations are repeated."""
        self.terms = terms
        self.cases = cases
        self.prepare = prepare
        self.doubted = doubted
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.stopping = threading.Event()
        self.zygotes: set[Worker] = set()
        self.counting = threading.Lock()
        self.active = 0
        self.slots = 1

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        """Run units in their order; closing the iterator ends everything that is in flight."""
        waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
        for unit in units:
            waiting.put(unit)
        self.active = min(self.terms.jobs, len(units))
        # Fewer environments than cores: let each zygote run several cells at once.
        self.slots = max(1, self.terms.jobs // max(1, self.active))
        threads = [threading.Thread(target=self._work, args=(waiting,)) for _ in range(self.active)]
        for thread in threads:
            thread.start()
        try:
            yield from self._events(threads)
        finally:
            self.stopping.set()
            for thread in threads:
                self._end(thread)

    def _end(self, thread: threading.Thread) -> None:
        """End a worker; one that builds goes from command to command, so one end is not enough."""
        while thread.is_alive():
            subprocesses.end_all()
            for zygote in list(self.zygotes):
                zygote.abort()
            thread.join(_LOOK)

    def left(self) -> list[Observation]:
        """Return what was measured and not yet heard when the events were closed."""
        return measured(self.events)

    def _events(self, threads: list[threading.Thread]) -> Iterator[Event]:
        while any(thread.is_alive() for thread in threads) or not self.events.empty():
            try:
                event = self.events.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if isinstance(event, BaseException):
                raise event
            yield event

    def _work(self, waiting: queue.SimpleQueue[Unit]) -> None:
        while not self.stopping.is_set():
            try:
                unit = waiting.get_nowait()
            except queue.Empty:
                self._widen()
                return
            try:
                self._unit(unit)
            except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
                self.events.put(error)
                return

    def _widen(self) -> None:
        """Give this worker's core to those that still run."""
        with self.counting:
            self.active -= 1
            self.slots = max(1, self.terms.jobs // max(1, self.active))
            for zygote in list(self.zygotes):
                zygote.widen(self.slots)

    def _unit(self, unit: Unit) -> None:
        self.events.put(Phase(environment=unit.environment, doing="building"))
        try:
            ready = self.prepare(unit)
            if ready.cells or ready.before:
                self._measure(unit, ready)
        except UnbuildableError as error:
            served = not isinstance(error, NoGpuBuildError)
            outcome = Outcome.UNBUILDABLE if served else Outcome.NOT_APPLICABLE
            self.events.put(Unbuilt(unit=unit, reason=str(error), outcome=outcome))
            return
        except NoTimeError:
            self.events.put(Left(unit=unit))
            return
        self.events.put(Done(unit=unit))

    def _measure(self, unit: Unit, ready: Ready) -> None:
        """Run the cells of a unit; those for which the disk had no room are lost, not failed."""
        batch = Batch(self._floor(), ready)
        try:
            batch.run()
        except OSError as error:
            if error.errno not in cleanup.FULL:
                raise
            self.events.put(Lost(unit=unit, reason=cleanup.REASON))
        else:
            if batch.roomless:
                lost = Unit(environment=unit.environment, cells=tuple(batch.roomless))
                self.events.put(Lost(unit=lost, reason=cleanup.REASON))

    def _floor(self) -> Floor:
        return Floor(
            terms=self.terms,
            cases=self.cases,
            slots=lambda: self.slots,
            emit=self.events.put,
            doubted=self.doubted,
            stopping=self.stopping,
            zygotes=self.zygotes,
        )
