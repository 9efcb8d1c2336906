"""The local pool: one thread per zygote, each busy with one environment at a time."""

from __future__ import annotations

import dataclasses
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.engine.answers import Setting, observe
from runner.engine.hardware import hardware
from runner.engine.zygote import Start, Zygote, ZygoteError
from runner.environments.building import Built, UnbuildableError
from runner.model.case import Isolation
from runner.model.cell import PROTOCOL, Cell, Environment, Source
from runner.model.observation import LOCAL, Observation, Provenance
from runner.model.outcomes import Device, Outcome
from runner.planning.imports import wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.model.case import Case
    from runner.model.matrix import Limits
    from runner.planning.plan import Unit

_SINGLY_LIMIT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How cells are run; `fork` and `witness` are off only where the two ways are compared."""

    run: str
    limits: Limits
    device: Device
    jobs: int
    fork: bool = True
    witness: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """An environment that can run cells, and those of a unit that apply in it."""

    environment: Environment
    built: Built
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """What a worker does now, for the display."""

    environment: str
    doing: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unbuilt:
    """A unit whose environment could not be made."""

    unit: Unit
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A unit of which nothing is left, and how much memory its zygote took, in bytes."""

    unit: Unit
    memory: int


Event = Phase | Unbuilt | Done | Observation | BaseException


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
        self.zygotes: set[Zygote] = set()
        self.slots = 1

    def run(self, units: Sequence[Unit]) -> Iterator[Event]:
        """Run units in their order; closing the iterator ends everything that is in flight."""
        waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
        for unit in units:
            waiting.put(unit)
        workers = min(self.terms.jobs, len(units))
        # Fewer environments than cores: let each zygote run several cells at once.
        self.slots = max(1, self.terms.jobs // max(1, workers))
        threads = [threading.Thread(target=self._work, args=(waiting,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            yield from self._events(threads)
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()

    def _events(self, threads: list[threading.Thread]) -> Iterator[Event]:
        while any(thread.is_alive() for thread in threads) or not self.events.empty():
            try:
                event = self.events.get(timeout=0.1)
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
                return
            try:
                self._unit(unit)
            except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
                self.events.put(error)
                return

    def _unit(self, unit: Unit) -> None:
        self.events.put(Phase(environment=unit.environment, doing="building"))
        try:
            ready = self.prepare(unit)
            memory = _Batch(self, ready).run() if ready.cells else 0
        except UnbuildableError as error:
            self.events.put(Unbuilt(unit=unit, reason=str(error)))
            return
        self.events.put(Done(unit=unit, memory=memory))


class _Batch:
    """The cells of one environment."""

    def __init__(self, pool: Pool, ready: Ready) -> None:
        self.pool = pool
        self.ready = ready
        self.terms = pool.terms
        self.zygote: Zygote | None = None
        self.memory = 0

    def run(self) -> int:
        """Run every cell, then repeat those that surprise; return the zygote's memory."""
        try:
            seen = list(self._run(self.ready.cells, fresh=not self.terms.fork))
            doubted = [row for row in seen if self.pool.doubted(row, self.ready.environment)]
            if doubted and not self.pool.stopping.is_set():
                self._confirm(doubted)
        finally:
            self._drop()
        return self.memory

    def _confirm(self, doubted: list[Observation]) -> None:
        """Repeat twice, once in a fresh process; three that disagree are unstable."""
        cells = tuple(row.cell for row in doubted)
        again = {row.cell: row for row in self._run(cells, fresh=False, told=False)}
        fresh = {row.cell: row for row in self._run(cells, fresh=True, told=False)}
        for row in doubted:
            if row.cell in again and row.cell in fresh:
                kinds = {_kind(one) for one in (row, again[row.cell], fresh[row.cell])}
                confirmed = dataclasses.replace(row, repeats=3, unstable=len(kinds) > 1)
                self.pool.events.put(confirmed)

    def _run(
        self, cells: Sequence[Cell], *, fresh: bool, told: bool = True
    ) -> Iterator[Observation]:
        """Run cells; one that takes the zygote with it is tried alone, then blamed."""
        left = dict(enumerate(cells))
        losses: dict[Cell, int] = {}
        while left and not self.pool.stopping.is_set():
            try:
                for number, answer in self._answers(left, losses, fresh=fresh):
                    row = self._observe(left.pop(number), answer)
                    if told:
                        self.pool.events.put(row)
                    yield row
            except ZygoteError as error:
                self._drop()
                suspect = next(iter(left.values()))
                losses[suspect] = losses.get(suspect, 0) + 1
                if losses[suspect] >= _SINGLY_LIMIT:
                    yield self._lost(suspect, str(error), told=told)
                    left = {n: cell for n, cell in left.items() if cell != suspect}

    def _answers(
        self, left: Mapping[int, Cell], losses: Mapping[Cell, int], *, fresh: bool
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        zygote = self._zygote()
        requests = [self._request(number, cell, fresh=fresh) for number, cell in left.items()]
        # After a loss one at a time, so that the next loss has exactly one suspect.
        step = 1 if losses else zygote.start.slots * 2
        for begin in range(0, len(requests), step):
            if self.pool.stopping.is_set():
                return
            batch = requests[begin : begin + step]
            first = self.pool.cases[left[batch[0]["id"]].case].name
            name = self.ready.environment.name
            self.pool.events.put(Phase(environment=name, doing=first))
            yield from zygote.run(batch)

    def _request(self, number: int, cell: Cell, *, fresh: bool) -> dict[str, Any]:
        case = self.pool.cases[cell.case]
        limits = self.terms.limits
        return {
            "id": number,
            "case": case.path,
            "precision": str(cell.precision),
            "workaround": cell.workaround,
            "device": str(cell.device),
            "exercises": str(case.block.exercises),
            "fresh": fresh or case.block.isolation is Isolation.PROCESS,
            "witness": self.terms.witness,
            "seconds": case.block.timeout or limits.seconds,
            "memory": limits.memory,
            "threads": 1,
        }

    def _zygote(self) -> Zygote:
        if self.zygote is None:
            name = self.ready.environment.name
            self.pool.events.put(Phase(environment=name, doing="importing"))
            forked = [
                self.pool.cases[name]
                for name in dict.fromkeys(cell.case for cell in self.ready.cells)
                if self.pool.cases[name].block.isolation is Isolation.FORK
            ]
            start = Start(
                built=self.ready.built,
                device=self.terms.device,
                preload=wanted(forked),
                fork=self.terms.fork,
                slots=self.pool.slots,
                threads=1,
            )
            try:
                self.zygote = Zygote(start)
            except ZygoteError as error:
                msg = f"its python cannot prepare the imports: {error}"
                raise UnbuildableError(msg) from error
            self.memory = max(self.memory, int(self.zygote.hello["memory"]))
        return self.zygote

    def _drop(self) -> None:
        if self.zygote is not None:
            self.zygote.close()
            self.zygote = None

    def _observe(self, cell: Cell, answer: Mapping[str, Any]) -> Observation:
        return observe(cell, self.pool.cases[cell.case].digest, answer, self._setting())

    def _setting(self) -> Setting:
        hello = self.zygote.hello if self.zygote else {}
        environment = self.ready.environment
        return Setting(
            environment_digest=environment.digest,
            packages=environment.pins,
            python=str(hello.get("python", environment.python)),
            torch_build=self.ready.built.versions.get("torch", ""),
            hardware=hardware(),
            protocol=PROTOCOL,
            run=self.terms.run,
            prefix=self.ready.built.folder.resolve(),
            foreign_files=environment.source is Source.INTERPRETER,
        )

    def _lost(self, cell: Cell, why: str, *, told: bool) -> Observation:
        answer = {"outcome": "crashes", "error_class": "ZygoteLost", "message": why}
        row = self._observe(cell, answer)
        if told:
            self.pool.events.put(row)
        return row


def _kind(row: Observation) -> tuple[Outcome, str]:
    return row.outcome, row.failed.signature if row.failed else ""


def not_built(
    cells: Sequence[Cell], cases: Mapping[str, Case], reason: str, run: str
) -> tuple[Observation, ...]:
    """Return what is stored for the cells of an environment that could not be made."""
    return tuple(
        Observation(
            cell=cell,
            outcome=Outcome.UNBUILDABLE,
            provenance=Provenance(
                case_digest=cases[cell.case].digest,
                environment_digest="",
                packages={},
                python="",
                torch_build="",
                hardware=hardware(),
                protocol=PROTOCOL,
                run=run,
            ),
            source=LOCAL,
            reason=reason,
        )
        for cell in cells
    )
