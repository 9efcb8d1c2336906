"""Run cells on this machine: threads that each take an environment and its worker in turn.

What a worker answers is made into an observation here.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from repromatrix.runner import subprocesses
from repromatrix.runner.environments.building import NoGpuBuildError, UnbuildableError
from repromatrix.runner.execution import events
from repromatrix.runner.execution.events import LOOK, Event, EventQueue, Phase, Ready, Terms
from repromatrix.runner.execution.hardware import hardware
from repromatrix.runner.execution.worker_client import (
    Start,
    Worker,
    WorkerError,
    end_starting,
    placeless,
)
from repromatrix.runner.model.case import Case, Isolation, syntax_tree
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source
from repromatrix.runner.model.observation import (
    LOCAL,
    Failed,
    MemoryUse,
    Observation,
    Provenance,
    signature,
)
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome
from repromatrix.runner.model.packages import UNDER_TEST
from repromatrix.runner.paths import IMPORTED
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.worker import cleanup
from repromatrix.runner.worker.cell import Request
from repromatrix.runner.worker.overlay import Overlay

_LOSSES = 2
"""How many workers a cell may take with it before it is blamed."""
_FEW = 2
_REPEATING = 60.0
"""Seconds after the end of a run in which what is doubted is still repeated."""
_SPARE = 4
"""Cells that wait in a worker beside those that run: it is never idle, and soon stopped."""


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
        self.events = EventQueue()
        self.stopping = threading.Event()
        self.workers: set[Worker] = set()
        self.counting = threading.Lock()
        self.starting = threading.Semaphore(terms.jobs)
        """Held while an environment is built and imports."""
        self.measuring = threading.Semaphore(terms.jobs)
        """Held while its cells run."""
        self.active = 0
        self.slots = 1

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        """Run units in their order; closing the iterator ends everything that is in flight."""
        waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
        for unit in units:
            waiting.put(unit)
        # One more than measure at once prepares the next environment: installers wait, no core may.
        # On a GPU each worker takes memory that cells need.
        self.active = min(self.terms.jobs + (self.terms.device is Device.CPU), len(units))
        self._share()
        threads = [threading.Thread(target=self._work, args=(waiting,)) for _ in range(self.active)]
        try:
            for thread in threads:  # an interruption between two must end the first
                thread.start()
            yield from self.events.until_ended(threads)
        finally:
            self.stopping.set()
            for thread in threads:
                self._end(thread)

    def _end(self, thread: threading.Thread) -> None:
        """End a thread; one that builds goes from command to command, so one end is not enough."""
        while thread.is_alive():
            subprocesses.end_all()
            end_starting()
            for worker in list(self.workers):
                worker.abort()
            thread.join(LOOK)

    def left(self) -> list[Observation]:
        """Return what was measured and not yet yielded when the events were closed."""
        return self.events.measured()

    def _work(self, waiting: queue.SimpleQueue[Unit]) -> None:
        while not self.stopping.is_set():
            try:
                unit = waiting.get_nowait()
            except queue.Empty:
                # The core of a thread that ends goes to those that still run.
                with self.counting:
                    self.active -= 1
                    self._share()
                    for worker in list(self.workers):
                        worker.widen(self.slots)
                return
            try:
                self._unit(unit)
            except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
                self.events.put(error)
                return

    def _share(self) -> None:
        """Let each worker run several cells at once: fewer environments than cores are left."""
        self.slots = max(1, self.terms.jobs // max(1, self.active))

    def _unit(self, unit: Unit) -> None:
        try:
            with contextlib.ExitStack() as starting:
                starting.enter_context(self.starting)
                self.events.put(Phase(environment=unit.environment, doing="building"))
                ready = self.prepare(unit)
                if ready.cells or ready.before:
                    self._measure(unit, ready, starting.close)
        except UnbuildableError as error:
            served = not isinstance(error, NoGpuBuildError)
            outcome = Outcome.UNBUILDABLE if served else Outcome.NOT_APPLICABLE
            self.events.put(events.Unbuilt(unit=unit, reason=str(error), outcome=outcome))
            return
        except events.NoTimeError:
            self.events.put(events.Done(unit=unit, begun=False))
            return
        self.events.put(events.Done(unit=unit))

    def _measure(self, unit: Unit, ready: Ready, started: Callable[[], None]) -> None:
        batch = Batch(self, ready)
        try:
            batch.run(started)
        except OSError as error:
            if error.errno not in cleanup.FULL:
                raise
            self.events.put(events.Lost(unit=unit, reason=cleanup.REASON))
        else:
            if batch.disk_full:
                lost = Unit(environment=unit.environment, cells=tuple(batch.disk_full))
                self.events.put(events.Lost(unit=lost, reason=cleanup.REASON))


class Batch:
    """The cells of one environment: sent to its worker, repeated where they are doubted."""

    def __init__(self, pool: Pool, ready: Ready) -> None:
        """Nothing is started before `run`."""
        self.pool = pool
        self.ready = ready
        self.terms = pool.terms
        self.worker: Worker | None = None
        self.disk_full: dict[Cell, None] = {}
        """Cells for which the disk had no room: that says nothing about them."""
        self.gpu = ""
        self.grace = 0.0

    @property
    def is_over(self) -> bool:
        """Whether no further cell is to be begun."""
        is_late = time.monotonic() >= self.terms.until + self.grace
        return is_late or self.pool.stopping.is_set()

    def run(self, started: Callable[[], None]) -> None:
        """Start the worker and say so; when it is its turn, measure."""
        try:
            if self.ready.cells and not self.is_over:
                self._started()
            started()
            with self.pool.measuring:
                self._measure()
        finally:
            self._drop()

    def _measure(self) -> None:
        here = self._run(self.ready.cells, fresh=not self.terms.fork)
        seen = [*self.ready.before, *here]
        doubted = [row for row in seen if self.pool.doubted(row, self.ready.environment)]
        self.grace = _REPEATING
        if doubted and not self.is_over:
            self._confirm(doubted)

    def _confirm(self, doubted: list[Observation]) -> None:
        """Repeat twice, once in a fresh process; three that disagree are unstable."""
        cells = tuple(row.cell for row in doubted)
        again = {row.cell: row for row in self._run(cells, fresh=False, emit=False)}
        fresh = {row.cell: row for row in self._run(cells, fresh=True, emit=False)}
        for row in doubted:
            if row.cell in again and row.cell in fresh:
                kinds = {row.kind, again[row.cell].kind, fresh[row.cell].kind}
                confirmed = dataclasses.replace(row, repeats=3, unstable=len(kinds) > 1)
                self.pool.events.put(confirmed)

    def _run(
        self, cells: Sequence[Cell], *, fresh: bool, emit: bool = True
    ) -> Iterator[Observation]:
        """Run cells; one that takes the worker with it is tried alone, then blamed."""
        left = dict(enumerate(cells))
        losses: dict[Cell, int] = {}
        while left and not self.is_over:
            try:
                for number, answer in self._answers(left, losses, fresh=fresh):
                    cell = left.pop(number)
                    if answer.get("disk_full"):
                        if emit:
                            self.disk_full[cell] = None
                        continue
                    row = self._observe(cell, answer)
                    if emit:
                        self.pool.events.put(row)
                    yield row
            except WorkerError as error:
                self._drop()
                if self.pool.stopping.is_set():
                    return
                suspect = next(iter(left.values()))
                losses[suspect] = losses.get(suspect, 0) + 1
                if losses[suspect] >= _LOSSES:
                    yield self._lost(suspect, str(error), emit=emit)
                    left = {n: cell for n, cell in left.items() if cell != suspect}

    def _answers(
        self, left: Mapping[int, Cell], losses: Mapping[Cell, int], *, fresh: bool
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield answers until they are all there, or the run is stopping."""
        worker = self._started()
        # After a loss one at a time, so that the next loss has exactly one suspect.
        # Where time is short, none waits in the worker.
        spare = _SPARE if math.isinf(self.terms.until) else 0
        ahead = 1 if losses else self.pool.slots + spare
        for number, answer in worker.run(self._requests(left, fresh=fresh), ahead):
            yield number, answer
            if self.pool.stopping.is_set():
                return

    def _requests(self, left: Mapping[int, Cell], *, fresh: bool) -> Iterator[Request]:
        """Yield what the worker is asked, each when it is about to be sent, if there is time."""
        case = ""
        for number, cell in list(left.items()):
            if self.is_over:
                return
            if cell.case != case:
                case = cell.case
                name = self.ready.environment.name
                self.pool.events.put(Phase(environment=name, doing=self.pool.cases[case].name))
            yield self._request(number, cell, fresh=fresh)

    def _request(self, number: int, cell: Cell, *, fresh: bool) -> Request:
        case = self.pool.cases[cell.case]
        limits = self.terms.limits
        return {
            "id": number,
            "case": case.path,
            "precision": str(cell.precision),
            "workaround": cell.workaround,
            "device": str(cell.device),
            "environ": _environ(case, self.terms),
            "exercises": str(case.block.exercises),
            "fresh": fresh or case.block.isolation is Isolation.PROCESS,
            "witness": self.terms.witness,
            "seconds": case.block.timeout or limits.seconds,
            "memory": limits.memory,
            "disk": limits.disk,
            "processes": limits.processes,
            "threads": self.terms.threads,
            "front": self._front,
        }

    def _started(self) -> Worker:
        if self.worker is None:
            name = self.ready.environment.name
            self.pool.events.put(Phase(environment=name, doing="importing"))
            forked = [
                case
                for case in self._cases(self.ready.cells)
                if case.block.isolation is Isolation.FORK
            ]
            before = [row.cell for row in self.ready.before]
            asked = self._cases([*self.ready.cells, *before])
            texts = {case.path: case.script.text for case in asked}
            start = Start(
                built=self.ready.built,
                device=self.terms.device,
                preload=self._preloaded(forked),
                fork=self.terms.fork,
                slots=self.pool.slots,
                hash_seed=self.terms.hash_seed,
                front=self._front,
                sandbox=self.terms.sandbox,
                cases=sorted({Path(case.beside) for case in asked if case.beside}),
                texts={path: text for path, text in texts.items() if text},
            )
            try:
                self.worker = Worker(start)
            except WorkerError as error:
                msg = f"its python cannot prepare the imports: {error}"
                raise UnbuildableError(msg) from error
            self.pool.workers.add(self.worker)
            self.worker.widen(self.pool.slots)  # it may have changed while it imported
            if self.terms.device is Device.CUDA and not self.gpu:
                self.gpu = self.worker.gpu(self.terms.limits)
        return self.worker

    def _cases(self, cells: Iterable[Cell]) -> list[Case]:
        return [self.pool.cases[name] for name in dict.fromkeys(cell.case for cell in cells)]

    @property
    def _front(self) -> Overlay | None:
        return self.ready.tree.front if self.ready.tree else None

    def _preloaded(self, forked: Sequence[Case]) -> dict[str, object]:
        """Return what the worker imports: of a tree that runs a cell or two, torch alone.

        A commit may be one that cannot be imported; then nothing has to begin anew.
        """
        few = self.ready.tree is not None and len(self.ready.cells) <= _FEW
        return {"modules": ["torch"], "names": {}} if few else wanted_imports(forked)

    def _drop(self) -> None:
        if self.worker is not None:
            self.pool.workers.discard(self.worker)
            self.worker.close()
            self.worker = None

    def _observe(self, cell: Cell, answer: Mapping[str, Any]) -> Observation:
        hello = self.worker.hello if self.worker else {}
        environment = self.ready.environment
        provenance = Provenance(
            case_digest=self.pool.cases[cell.case].digest,
            environment_digest=environment.digest,
            packages=environment.pins,
            python=str(hello.get("python", environment.python)),
            torch_build=self.ready.built.versions.get("torch", ""),
            hardware=f"{hardware()}; {self.gpu}" if self.gpu else hardware(),
            protocol=PROTOCOL,
            run=self.terms.run,
        )
        return observe(cell, answer, provenance, self.ready)

    def _lost(self, cell: Cell, why: str, *, emit: bool) -> Observation:
        # The class is stored and published under this name, so it stays.
        answer = {"outcome": "crashes", "error_class": "ZygoteLost", "message": why}
        row = self._observe(cell, answer)
        if emit:
            self.pool.events.put(row)
        return row


_DTYPES = re.compile(r"\{(torch\.\w+(?:, torch\.\w+)+)\}")


def observe(
    cell: Cell, answer: Mapping[str, Any], provenance: Provenance, ready: Ready
) -> Observation:
    """Turn an answer into an observation; a cell that imported foreign files is refused.

    `provenance` says all but what the cell imported.
    """
    imported, claimed = answer.get("imported", {}), answer.get("claimed", {})
    package = ready.tree.package if ready.tree else ""
    # A tree is identified by the version that it states itself, as it was imported; what the
    # environment knows beside it is its commit.
    known = provenance.packages.get(package, "").partition("+g")[0]
    own = {package: claimed[package]} if claimed.get(package, known) != known else {}
    outcome, reason = Outcome(answer["outcome"]), answer.get("reason", "")
    memory = MemoryUse(peak=answer["peak"], limit=answer["limit"]) if "peak" in answer else None
    if memory and memory.is_over and outcome is Outcome.OUT_OF_MEMORY:
        reason = reason or f"above our limit of {memory.limit} MiB"
    foreign = _foreign(imported, ready)
    if foreign:
        home = "the tree" if foreign[0] == package else "the environment"
        outcome, reason = Outcome.NOT_RUN, f"refused: {foreign[0]} is no file of {home}"
    return Observation(
        cell=cell,
        outcome=outcome,
        provenance=dataclasses.replace(
            provenance,
            packages={**provenance.packages, **own},
            imported={name: _shown(file, ready) for name, file in imported.items()},
        ),
        source=LOCAL,
        failed=_failed(answer, outcome, ready),
        reason=reason,
        exercised=Exercised(answer.get("exercised", "")),
        computed=answer.get("computed", {}),
        measured=answer.get("measured", {}),
        seconds=answer.get("seconds", answer.get("wall")),
        output=answer.get("payload") or answer.get("output", ""),
        memory=memory,
    )


def _foreign(imported: Mapping[str, str], ready: Ready) -> list[str]:
    if ready.environment.source is Source.INTERPRETER and not ready.tree:
        return []  # those of `--python` may lie anywhere
    homes = {"torch": ready.built.torch} if ready.built.torch else {}
    if ready.tree:
        homes[ready.tree.package] = ready.tree.path / ready.tree.package
    return [
        name
        for name, file in imported.items()
        if not Path(file).resolve().is_relative_to(homes.get(name, ready.built.folder).resolve())
    ]


def _failed(answer: Mapping[str, Any], outcome: Outcome, ready: Ready) -> Failed | None:
    if not (outcome.is_failure or outcome.blames_machine) or "error_class" not in answer:
        return None
    message = ordered(_shown(str(answer.get("message", "")), ready))
    return Failed(
        error_class=str(answer["error_class"]),
        message=message,
        signature=signature(str(answer["error_class"]), message),
        traceback=_shown(str(answer.get("traceback", "")), ready),
    )


def ordered(text: str) -> str:
    """Put sets of dtypes in one order: Python prints theirs anew in every process."""
    return _DTYPES.sub(lambda found: f"{{{', '.join(sorted(found[1].split(', ')))}}}", text)


def _shown(text: str, ready: Ready) -> str:
    if ready.tree:
        for known in (ready.tree.path, ready.tree.path.resolve()):
            text = text.replace(f"{known}/", "")
    return placeless(text, ready.built.folder)


def _environ(case: Case, terms: Terms) -> dict[str, str]:
    told = {"REPRO_DEVICE": str(terms.device), "REPRO_SEED": terms.seed}
    if case.environ:  # a script of ours, which imports what lies beside it
        told |= {"REPRO_RUNNER": str(IMPORTED), **case.environ}
    return told | ({"REPRO_VARIANT": case.variant} if case.variant else {})


def wanted_imports(cases: Iterable[Case]) -> dict[str, object]:
    """Return the packages and names that cases take from torch and the Hugging Face libraries.

    Modules below a package are named behind all packages, and only those that a case imports
    whatever its arguments are: one inside a function may be what a workaround changes.
    """
    modules: set[str] = set()
    inner: set[str] = set()
    names: dict[str, set[str]] = {}
    for case in cases:
        tree = syntax_tree(case.script.code)
        for module, _ in _imports(tree.body):
            if "." in module and _top(module) in UNDER_TEST:
                inner.add(module)
        for module, name in _imports(ast.walk(tree)):
            if _top(module) in UNDER_TEST:
                modules.add(_top(module))
            if module in UNDER_TEST and name:
                names.setdefault(module, set()).add(name)
    return {
        "modules": [*(module for module in UNDER_TEST if module in modules), *sorted(inner)],
        "names": {module: sorted(names[module]) for module in UNDER_TEST if module in names},
    }


def _top(module: str) -> str:
    return module.partition(".")[0]


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the modules that are imported, each with a name that is taken from it."""
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name, "") for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                yield from ((module, alias.name) for alias in aliases)
            case _:
                pass
