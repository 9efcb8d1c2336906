"""The cells of one environment: sent to its zygote, repeated where they surprise."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.execution.events import Event, Phase, Ready, Terms
from repromatrix.runner.execution.gpu import Gpu, gpu
from repromatrix.runner.execution.hardware import hardware
from repromatrix.runner.execution.observe import RunSetting, observe
from repromatrix.runner.execution.preload import wanted
from repromatrix.runner.execution.worker_client import Start, Worker, WorkerError
from repromatrix.runner.model.case import Case, Isolation
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.worker.cell import Request
from repromatrix.runner.worker.overlay import Overlay

_SINGLY_LIMIT = 2
_FEW = 2
_SPARE = 4
"""Cells that wait in a zygote beside those that run: it is never idle, and soon stopped."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What every batch of a pool shares."""

    terms: Terms
    cases: Mapping[str, Case]
    slots: Callable[[], int]
    """How many cells a zygote may run at once, by now."""
    emit: Callable[[Event], None]
    doubted: Callable[[Observation, Environment], bool]
    stopping: threading.Event
    zygotes: set[Worker]

    @property
    def over(self) -> bool:
        """Whether no further cell is to be begun."""
        return self.stopping.is_set() or time.monotonic() >= self.terms.until


class Batch:
    """The cells of one environment."""

    def __init__(self, floor: Floor, ready: Ready) -> None:
        """Nothing is started before `run`."""
        self.floor = floor
        self.ready = ready
        self.terms = floor.terms
        self.zygote: Worker | None = None
        self.roomless: dict[Cell, None] = {}
        """Cells for which the disk had no room: that says nothing about them."""
        self.gpu: Gpu | None = None

    def run(self) -> None:
        """Run every cell, then repeat those that surprise."""
        try:
            here = self._run(self.ready.cells, fresh=not self.terms.fork)
            seen = [*self.ready.before, *here]
            doubted = [row for row in seen if self.floor.doubted(row, self.ready.environment)]
            if doubted and not self.floor.over:
                self._confirm(doubted)
        finally:
            self._drop()

    def _confirm(self, doubted: list[Observation]) -> None:
        """Repeat twice, once in a fresh process; three that disagree are unstable."""
        cells = tuple(row.cell for row in doubted)
        again = {row.cell: row for row in self._run(cells, fresh=False, told=False)}
        fresh = {row.cell: row for row in self._run(cells, fresh=True, told=False)}
        for row in doubted:
            if row.cell in again and row.cell in fresh:
                kinds = {one.kind for one in (row, again[row.cell], fresh[row.cell])}
                confirmed = dataclasses.replace(row, repeats=3, unstable=len(kinds) > 1)
                self.floor.emit(confirmed)

    def _run(
        self, cells: Sequence[Cell], *, fresh: bool, told: bool = True
    ) -> Iterator[Observation]:
        """Run cells; one that takes the zygote with it is tried alone, then blamed."""
        left = dict(enumerate(cells))
        losses: dict[Cell, int] = {}
        while left and not self.floor.over:
            try:
                for number, answer in self._answers(left, losses, fresh=fresh):
                    cell = left.pop(number)
                    if answer.get("roomless"):
                        if told:
                            self.roomless[cell] = None
                        continue
                    row = self._observe(cell, answer)
                    if told:
                        self.floor.emit(row)
                    yield row
            except WorkerError as error:
                self._drop()
                if self.floor.stopping.is_set():
                    return
                suspect = next(iter(left.values()))
                losses[suspect] = losses.get(suspect, 0) + 1
                if losses[suspect] >= _SINGLY_LIMIT:
                    yield self._lost(suspect, str(error), told=told)
                    left = {n: cell for n, cell in left.items() if cell != suspect}

    def _answers(
        self, left: Mapping[int, Cell], losses: Mapping[Cell, int], *, fresh: bool
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield answers until they are all there, or the run is stopping."""
        zygote = self._zygote()
        # After a loss one at a time, so that the next loss has exactly one suspect.
        ahead = 1 if losses else self._ahead()
        for number, answer in zygote.run(self._requests(left, fresh=fresh), ahead):
            yield number, answer
            if self.floor.stopping.is_set():
                return

    def _requests(self, left: Mapping[int, Cell], *, fresh: bool) -> Iterator[Request]:
        """Yield what the zygote is asked, each when it is about to be sent, if there is time."""
        told = ""
        for number, cell in list(left.items()):
            if self.floor.over:
                return
            if cell.case != told:
                told = cell.case
                name = self.ready.environment.name
                self.floor.emit(Phase(environment=name, doing=self.floor.cases[told].name))
            yield self._request(number, cell, fresh=fresh)

    def _ahead(self) -> int:
        """Return how many cells a zygote is sent ahead; where time is short none waits there."""
        return self.floor.slots() + (_SPARE if math.isinf(self.terms.until) else 0)

    def _request(self, number: int, cell: Cell, *, fresh: bool) -> Request:
        case = self.floor.cases[cell.case]
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
            "processes": limits.processes,
            "threads": self.terms.threads,
            "front": self._front,
        }

    def _zygote(self) -> Worker:
        if self.zygote is None:
            name = self.ready.environment.name
            self.floor.emit(Phase(environment=name, doing="importing"))
            forked = [
                self.floor.cases[name]
                for name in dict.fromkeys(cell.case for cell in self.ready.cells)
                if self.floor.cases[name].block.isolation is Isolation.FORK
            ]
            start = Start(
                built=self.ready.built,
                device=self.terms.device,
                preload=self._preloaded(forked),
                fork=self.terms.fork,
                slots=self.floor.slots(),
                # Its own stay at one: a process with a second thread cannot be forked.
                threads=1,
                hash_seed=self.terms.hash_seed,
                front=self._front,
                sandbox=self.terms.sandbox,
                texts=self._texts(),
            )
            try:
                self.zygote = Worker(start)
            except WorkerError as error:
                msg = f"its python cannot prepare the imports: {error}"
                raise UnbuildableError(msg) from error
            self.floor.zygotes.add(self.zygote)
            self.zygote.widen(self.floor.slots())  # it may have changed while it imported
            if self.terms.device is Device.CUDA and self.gpu is None:
                self.gpu = gpu(self.zygote, self.terms.limits)
        return self.zygote

    def _texts(self) -> dict[str, str]:
        used = dict.fromkeys(cell.case for cell in (*self.ready.cells, *self._before()))
        cases = [self.floor.cases[name] for name in used]
        return {one.path: one.script.text for one in cases if one.script.text}

    def _before(self) -> list[Cell]:
        return [row.cell for row in self.ready.before]

    @property
    def _front(self) -> Overlay | None:
        return self.ready.tree.front if self.ready.tree else None

    def _preloaded(self, forked: Sequence[Case]) -> dict[str, object]:
        """Return what the zygote imports: of a tree that runs a cell or two, torch alone.

        A commit may be one that cannot be imported; then nothing has to begin anew.
        """
        few = self.ready.tree is not None and len(self.ready.cells) <= _FEW
        return {"modules": ["torch"], "names": {}} if few else wanted(forked)

    def _drop(self) -> None:
        if self.zygote is not None:
            self.floor.zygotes.discard(self.zygote)
            self.zygote.close()
            self.zygote = None

    def _observe(self, cell: Cell, answer: Mapping[str, Any]) -> Observation:
        return observe(cell, self.floor.cases[cell.case].digest, answer, self._setting())

    def _setting(self) -> RunSetting:
        hello = self.zygote.hello if self.zygote else {}
        environment = self.ready.environment
        return RunSetting(
            environment_digest=environment.digest,
            packages=environment.pins,
            python=str(hello.get("python", environment.python)),
            torch_build=self.ready.built.versions.get("torch", ""),
            hardware=f"{hardware()}; {self.gpu}" if self.gpu else hardware(),
            protocol=PROTOCOL,
            run=self.terms.run,
            folder=self.ready.built.folder,
            foreign_files=environment.source is Source.INTERPRETER and not self.ready.tree,
            torch=self.ready.built.torch,
            tree=self.ready.tree,
        )

    def _lost(self, cell: Cell, why: str, *, told: bool) -> Observation:
        answer = {"outcome": "crashes", "error_class": "ZygoteLost", "message": why}
        row = self._observe(cell, answer)
        if told:
            self.floor.emit(row)
        return row
