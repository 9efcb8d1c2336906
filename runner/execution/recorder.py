"""A run brought to its end: what happens is stored, counted and told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from repromatrix.runner.errors import Interrupted, RunnerError
from repromatrix.runner.evidence import spill
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Done, Event, Left, Lost, Phase, Unbuilt, not_built
from repromatrix.runner.execution.pool import Pool
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.planning.plan import Unit


class RunListener(Protocol):
    """Who watches a run."""

    def began(self, units: int, cells: int) -> None:
        """Hear how much there is to do."""

    def phase(self, environment: str, doing: str) -> None:
        """Hear what an environment does now."""

    def measured(self, seen: Observation, verdict: Verdict) -> None:
        """Hear of one cell."""

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        """Hear that an environment could not be made."""

    def done(self, environment: str) -> None:
        """Hear that an environment has nothing left to run."""


class Engine(Protocol):
    """What runs units: the pool of this machine, or a cluster."""

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        """Run units and yield what happens; closing the iterator ends what is in flight."""

    def left(self) -> list[Observation]:
        """Return what was measured and not yet heard when the events were closed."""


@dataclass(kw_only=True, slots=True)
class RunTally:
    """What a run has done so far."""

    measured: int = 0
    unbuilt: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    """Environments of which some cells were run to their end nowhere, with the reason."""
    interrupted: bool = False
    left: frozenset[Cell] = frozenset()
    """Cells for which a budget had no time."""


def run(
    campaign: Run,
    store: Store,
    audience: RunListener,
    pause: Callable[[int], None],
    engine: Engine | None = None,
) -> RunTally:
    """Run a campaign to its end or to an interruption; what was measured is stored either way.

    `pause` is called between two events with the number of environments that are left, to render
    what there is so far. Without an engine this machine runs it.
    """
    units = campaign.units()
    hearing = Recorder(campaign, store, audience, pause, units)
    audience.began(*campaign.expected(units))
    engine = engine or pool(campaign)
    try:
        _hear_all(units, engine, hearing)
    except RunnerError as error:  # the store cannot be written: nothing measured is lost by that
        raise spill.kept(store.path, [*hearing.unsaved, *engine.left()], error) from error
    return hearing.end()


def _hear_all(units: Sequence[Unit], engine: Engine, hearing: Recorder) -> None:
    try:
        # Closed at once when a signal comes in the middle of storing: nothing goes on behind us.
        with contextlib.closing(engine.run(units)) as events:
            for event in events:
                hearing.hear(event)
    except Interrupted:
        hearing.tally.interrupted = True
        hearing.save(*engine.left())


def pool(campaign: Run) -> Pool:
    """Return the engine of this machine for a campaign."""
    return Pool(campaign.terms, campaign.project.cases, campaign.prepare, campaign.doubted)


class Recorder:
    """Stores what happens, counts it, and tells the audience."""

    def __init__(
        self,
        campaign: Run,
        store: Store,
        audience: RunListener,
        pause: Callable[[int], None],
        units: Sequence[Unit],
    ) -> None:
        """Nothing happened yet."""
        self.left = len(units)
        self.campaign = campaign
        self.store = store
        self.audience = audience
        self.pause = pause
        self.tally = RunTally()
        self.unsaved: list[Observation] = []
        """What was measured and could not be stored."""
        self.waiting = {cell for unit in units for cell in unit.cells} if campaign.budget else set()

    def save(self, *rows: Observation) -> None:
        """Store what was measured; raises RunnerError where that cannot be done."""
        self.unsaved += rows
        self.store.put(*self.unsaved)
        self.unsaved.clear()

    def end(self) -> RunTally:
        """Return the tally, with what a budget left."""
        self.tally.left = frozenset(self.waiting)
        return self.tally

    def hear(self, event: Event) -> None:
        """Take one event; one that is an error is raised."""
        match event:
            case Observation():
                self._measured(event)
            case Unbuilt():
                self._unbuilt(event)
            case Lost():
                self.tally.lost[event.unit.environment] = event.reason
            case Phase():
                self.audience.phase(event.environment, event.doing)
            case Left():
                self.left -= 1
                self.audience.done(event.unit.environment)
            case Done():
                self.audience.done(event.unit.environment)
                self.left -= 1
                self.pause(self.left)
            case BaseException():
                raise event

    def _measured(self, seen: Observation) -> None:
        self.save(seen)
        self.waiting.discard(seen.cell)
        if self.campaign.budget is not None:
            self.campaign.budget.came(seen.cell.environment)
        self.tally.measured += seen.repeats == 1
        environment = self.campaign.environment(seen)
        self.audience.measured(seen, self.campaign.verdict(seen, environment))

    def _unbuilt(self, event: Unbuilt) -> None:
        name, known = event.unit.environment, self.campaign.known
        self.tally.unbuilt[name] = event.reason
        self.left -= 1
        self.waiting.difference_update(event.unit.cells)
        cells = [cell for cell in event.unit.cells if not _is_known(known.get(cell), event.reason)]
        run = self.campaign.terms.run
        cases = self.campaign.project.cases
        self.store.put(*not_built(cells, cases, event.reason, run, event.outcome))
        self.audience.unbuilt(name, event.reason, len(event.unit.cells))


def _is_known(seen: Observation | None, reason: str) -> bool:
    return seen is not None and (seen.outcome.was_run or seen.reason == reason)
