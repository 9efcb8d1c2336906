"""What passes between a run and its engine: how cells are run, and what happens meanwhile."""

from __future__ import annotations

import contextlib
import math
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repromatrix.runner.environments.building import Built
from repromatrix.runner.execution.hardware import hardware
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import LOCAL, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.worker.overlay import Overlay

LOOK = 0.1
"""Seconds between two looks at what has ended."""


def run_name() -> str:
    """Return a name for a run, readable and different from every other on this machine."""
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + f"-{time.time_ns() % 10**6:06d}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How cells are run; what follows `sandbox` differs only where two ways are compared."""

    limits: Limits
    device: Device
    jobs: int = 1
    sandbox: bool = False
    """Whether cells run in a sandbox; that changes no outcome, and is no part of what is stored."""
    run: str = field(default_factory=run_name)
    """What the rows of a run have in common."""
    fork: bool = sys.platform == "linux"
    """Whether a worker forks for each cell; not elsewhere: there the system's own libraries do
    not work in a forked process."""
    witness: bool = True
    threads: int = 1
    hash_seed: str = "0"
    seed: str = "0"
    """What cases seed their random numbers with; what is stored was measured with 0."""
    until: float = math.inf
    """When no further cell is begun, on the monotonic clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """Sources of one package that take the place of what an environment has installed."""

    package: str
    path: Path
    """The folder that holds the package, to be put in front of the path."""
    kept: Path
    """Where its compiled files are kept."""

    @property
    def front(self) -> Overlay:
        """What the environment's python is told."""
        return {"path": str(self.path), "kept": str(self.kept)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """An environment that can run cells, and those of a unit that apply in it."""

    environment: Environment
    built: Built
    cells: tuple[Cell, ...]
    tree: Tree | None = None
    before: tuple[Observation, ...] = ()
    """What was measured elsewhere and is yet to be doubted here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """What a worker does now, for the display."""

    environment: str
    doing: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unbuilt:
    """A unit whose environment could not be made, or does not have the device asked for."""

    unit: Unit
    reason: str
    outcome: Outcome = Outcome.UNBUILDABLE


class NoTimeError(Exception):
    """Nothing of a unit can be begun that ends in time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A unit of which nothing is left, or that was not begun for want of time."""

    unit: Unit
    begun: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """The cells of a unit that no machine ran to their end; that says nothing about the cells."""

    unit: Unit
    reason: str


Event = Phase | Unbuilt | Lost | Done | Observation | BaseException


class EventQueue(queue.SimpleQueue[Event]):
    """What the threads of an engine tell the thread that iterates."""

    def until_ended(self, threads: Sequence[threading.Thread]) -> Iterator[Event]:
        """Yield events until all threads have ended; one that is an error is raised."""
        while any(thread.is_alive() for thread in threads) or not self.empty():
            with contextlib.suppress(queue.Empty):
                event = self.get(timeout=LOOK)
                if isinstance(event, BaseException):
                    raise event
                yield event

    def measured(self) -> list[Observation]:
        """Take what is left, and return what was measured of it."""
        events = [self.get_nowait() for _ in range(self.qsize())]
        return [event for event in events if isinstance(event, Observation)]


def not_built(
    cells: Sequence[Cell],
    cases: Mapping[str, Case],
    reason: str,
    run: str,
    outcome: Outcome = Outcome.UNBUILDABLE,
) -> tuple[Observation, ...]:
    """Return what is stored for the cells of an environment that could not be made."""
    return tuple(
        Observation(
            cell=cell,
            outcome=outcome,
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
