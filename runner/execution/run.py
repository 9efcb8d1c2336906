"""Run cells and keep what was measured: a whole run, or a few cells of one environment.

Everything that measures comes through here: `Run.execute` runs a selection and stores the rows,
`measure` runs the cells of one prepared environment and returns their rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from repromatrix.runner.environments import building, development
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.evidence.answering import answering_rows, says
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution import events
from repromatrix.runner.execution.events import Event, Ready, Terms, Tree, Unbuilt
from repromatrix.runner.execution.pool import Pool
from repromatrix.runner.judging.verdicts import covering, expected, is_current, judge, live
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.observation import LOCAL, Observation
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.paths import CODE, ROOT, Paths
from repromatrix.runner.planning.budget import Budget
from repromatrix.runner.planning.plan import Unit, answered, applicable, plan
from repromatrix.runner.planning.selection import Selection
from repromatrix.runner.project import Project, recipe


class RunListener:
    """Is told what happens in a run, and ignores it; override what you want to know."""

    def began(self, units: int, cells: int) -> None:
        """Hear how much there is to do."""

    def phase(self, environment: str, doing: str) -> None:
        """Hear what an environment does now: `building`, `importing`, or the name of a case."""

    def measured(self, row: Observation, verdict: Verdict) -> None:
        """Hear of a cell, and again of one that was repeated."""

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        """Hear that an environment could not be built, and how many cells it would have run."""

    def done(self, environment: str) -> None:
        """Hear that an environment has nothing left to run."""


class Engine(Protocol):
    """What runs units: the pool of this machine, or a cluster."""

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        """Run units and yield what happens; closing the iterator ends what is in flight."""

    def left(self) -> list[Observation]:
        """Return what was measured and not yet yielded when the iterator was closed."""


def every_cell(_: Cell) -> bool:
    """Ask for every cell; by its name this can be sent to a node of a cluster."""
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What is to be run, on what, with which evidence at hand."""

    project: Project
    selection: Selection
    terms: Terms
    known: Mapping[Cell, Observation] = field(default_factory=dict)
    rerun: bool = False
    keep_rows: bool = False
    asked: Callable[[Cell], bool] = every_cell
    """Says which of the selected cells are to be run."""
    order: tuple[Unit, ...] | None = None
    """What is to be run, in its order, where that was worked out already."""
    published: Mapping[Cell, Observation] = field(default_factory=dict)
    """What is published of the cells and current: whatever denies it is repeated."""
    budget: Budget | None = None
    largest: int = 0
    """The most cells of a unit, so that several nodes share an environment; 0 for all of them."""
    interpreter: tuple[Environment, Built] | None = None

    def selected(self, environment: str) -> tuple[Cell, ...]:
        """Return the cells of an environment that were asked for, applicable or not."""
        precisions, device = self.project.matrix.precisions, self.terms.device
        described = self.project.environments[environment]
        return tuple(
            cell
            for case in self.project.cases.values()
            if belongs(case, described)
            for cell in self.selection.cells(case, environment, precisions, device)
        )

    def due(self, environment: Environment) -> tuple[Cell, ...]:
        """Return the selected cells of an environment that are to be run."""
        cells = applicable(self.selected(environment.name), self.project.cases, environment)
        return self.missing(filter(self.asked, cells), environment)

    def missing(self, cells: Iterable[Cell], environment: Environment) -> tuple[Cell, ...]:
        """Return the cells that this machine has not measured, or not repeated where it must."""
        if self.rerun or not self.known:
            return tuple(cells)
        cases = self.project.cases
        entries = functools.cache(lambda name: live(cases[name], environment))

        def is_due(cell: Cell) -> bool:
            row = self.known.get(cell)
            if row is None or not answered(row, cases[cell.case], environment):
                return True
            # It was unexpected here, and the run ended before it was repeated.
            unconfirmed = row.source == LOCAL and row.repeats == 1
            unexpected = judge(covering(entries(cell.case), cell), row).is_unexpected
            return unconfirmed and (unexpected or self._denies(row))

        return tuple(filter(is_due, cells))

    def _denies(self, row: Observation) -> bool:
        published = self.published.get(row.cell)
        return published is not None and row.outcome.is_evidence and says(row) != says(published)

    def execute(
        self,
        store: Store,
        listener: RunListener | None = None,
        pause: Callable[[int], None] = lambda _: None,
        engine: Engine | None = None,
    ) -> RunTally:
        """Run to the end or to an interruption; what was measured is stored either way.

        `pause` is called after every environment, with the number of those that are left.
        Without an engine this machine runs the cells. Raises RunnerError where the store cannot
        be written: what it does not hold is measured again by the next run.
        """
        units = self.units()
        recorder = Recorder(
            run=self,
            store=store,
            listener=listener or RunListener(),
            pause=pause,
            left=len(units),
            waiting={cell for unit in units for cell in unit.cells},
        )
        likely = units if self.budget is None else self.budget.first(units)
        recorder.listener.began(len(likely), sum(len(unit.cells) for unit in likely))
        recorder.record(engine or self.pool(), units)
        recorder.tally.left = frozenset(recorder.waiting)
        return recorder.tally

    def pool(self, prepare: Callable[[Unit], Ready] | None = None) -> Pool:
        """Return what runs the cells on this machine, in environments that `prepare` makes."""
        return Pool(self.terms, self.project.cases, prepare or self.prepare, self.doubted)

    def units(self) -> tuple[Unit, ...]:
        """Return what is to be run, coarse to fine unless an order is given.

        What `main` needs is known once it is built.
        """

        def cells_in(name: str) -> tuple[Cell, ...]:
            environment = self.project.environments[name]
            is_main = environment.source is Source.MAIN
            return self.selected(name) if is_main else self.due(environment)

        if self.order is not None:
            held = self.project.environments
            units = tuple(
                dataclasses.replace(unit, cells=self.missing(unit.cells, held[unit.environment]))
                for unit in self.order
            )
            return tuple(unit for unit in units if unit.cells)
        names = [name for name in self.project.names if name in self.selection.environments]
        units = plan(names, cells_in)
        if self.largest:
            units = tuple(part for unit in units for part in unit.parts(self.largest))
        return units

    def prepare(self, unit: Unit) -> Ready:
        """Build the environment of a unit; raises UnbuildableError, or NoTimeError before it."""
        if self.budget is not None:
            unit = self.budget.fitting(unit)
            if not unit.cells:
                raise events.NoTimeError
        cells = unit.cells
        project, name = self.project, unit.environment
        environment, tree = project.environments[name], None
        if self.interpreter is not None:
            environment, built = self.interpreter
        elif environment.source is Source.MAIN:
            environment, built, tree = self._main(name)
        else:
            built = building.build(project.paths, recipe(project, name))
        if environment.source is Source.MAIN:
            due = frozenset(self.due(environment))
            cells = tuple(cell for cell in cells if cell in due)
        return Ready(environment=environment, built=built, cells=cells, tree=tree)

    def _main(self, name: str) -> tuple[Environment, Built, Tree | None]:
        """Build `main`: of a folder its sources as they stand, else what is installed from it."""
        project = self.project
        checkout = development.main_checkout()
        if checkout is None:
            return *development.build_main(project.paths, project.matrix, name), None
        home = Home(paths=project.paths, matrix=project.matrix, locks=project.locks)
        environment, built = development.build_main_checkout(home, checkout, name)
        tree = Tree(package=checkout.package, path=checkout.root, kept=project.paths.kept)
        return environment, built, tree

    def environment(self, seen: Observation) -> Environment:
        """Return the environment of a row; what `main` held stands in the row itself."""
        known = self.project.environments[seen.cell.environment]
        if known.source.has_lock:
            return known
        return dataclasses.replace(known, pins=seen.provenance.packages)

    def verdict(self, seen: Observation, environment: Environment) -> Verdict:
        """Say what an observation means here."""
        case = self.project.cases[seen.cell.case]
        return judge(expected(case, seen.cell, environment), seen)

    def doubted(self, seen: Observation, environment: Environment) -> bool:
        """Say whether an observation is to be repeated.

        It is when it is unexpected, denies what is published, or ran into our own limit of memory,
        and was not confirmed before; or when the cell was unstable: one lucky run does not make it
        stable.
        """
        unexpected = self.verdict(seen, environment).is_unexpected
        doubtful = seen.hit_limit or unexpected or self._denies(seen)
        before = self.known.get(seen.cell)
        if before is None or not is_current(
            before, self.project.cases[seen.cell.case], environment
        ):
            return doubtful
        if before.unstable:
            return True
        confirmed = before.repeats > 1 and before.kind == seen.kind
        return doubtful and not confirmed


def runner_files(paths: Paths) -> Iterator[tuple[str, Path]]:
    """Yield what another machine needs beside the cases: the name there, and the file here."""
    yield "environments/matrix.toml", paths.matrix
    for name in ("repromatrix/__init__.py", "repromatrix/commands.py"):
        yield name, ROOT / name
    for name, folder, files in (
        ("environments/locks", paths.locks, paths.locks.glob("*.txt")),
        ("repromatrix/runner", CODE, CODE.rglob("*.py")),
    ):
        for path in files:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


def known_rows(rows: Iterable[Observation], project: Project) -> dict[Cell, Observation]:
    """Return the observation that answers for each cell."""
    return answering_rows(rows, project.cases, project.environments)


@dataclass(kw_only=True, slots=True)
class RunTally:
    """What a run has done so far."""

    measured: int = 0
    rows: dict[Cell, Observation] = field(default_factory=dict)
    """The last row of every cell that was measured, where the run keeps them."""
    unbuilt: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    """Environments of which some cells were run to their end nowhere, with the reason."""
    interrupted: bool = False
    left: frozenset[Cell] = frozenset()
    """Cells that were not run: a budget had no time for them, or the run was interrupted."""


@dataclass(kw_only=True, slots=True)
class Recorder:
    """Stores and counts what happens, and tells the listener."""

    run: Run
    store: Store
    listener: RunListener
    pause: Callable[[int], None]
    left: int
    """How many units are not done."""
    waiting: set[Cell]
    tally: RunTally = field(default_factory=RunTally)
    unsaved: list[Observation] = field(default_factory=list)
    """What was measured and could not be stored."""

    def save(self, *rows: Observation) -> None:
        """Store what was measured; raises RunnerError where that cannot be done."""
        self.unsaved += rows
        self.store.put(*self.unsaved)
        self.unsaved.clear()

    def record(self, engine: Engine, units: Sequence[Unit]) -> None:
        """Run units to the end or to an interruption."""
        try:
            # Closed at once when a signal comes in the middle of storing: nothing runs on.
            with contextlib.closing(engine.run(units)) as happening:
                for event in happening:
                    self.hear(event)
        except Interrupted:
            self.tally.interrupted = True
            self.save(*engine.left())

    def hear(self, event: Event) -> None:
        """Take one event; one that is an error is raised."""
        match event:
            case Observation():
                self._measured(event)
            case Unbuilt():
                self._unbuilt(event)
            case events.Lost():
                self.tally.lost[event.unit.environment] = event.reason
            case events.Phase():
                self.listener.phase(event.environment, event.doing)
            case events.Done():
                self.left -= 1
                if event.begun:
                    self.listener.done(event.unit.environment)
                    self.pause(self.left)
            case BaseException():
                raise event

    def _measured(self, row: Observation) -> None:
        self.save(row)
        self.waiting.discard(row.cell)
        self.tally.measured += row.repeats == 1
        if self.run.keep_rows:
            self.tally.rows[row.cell] = row
        self.listener.measured(row, self.run.verdict(row, self.run.environment(row)))

    def _unbuilt(self, event: Unbuilt) -> None:
        name, known = event.unit.environment, self.run.known
        self.tally.unbuilt[name] = event.reason
        self.left -= 1
        self.waiting.difference_update(event.unit.cells)
        cells = [
            cell
            for cell in event.unit.cells
            if (row := known.get(cell)) is None
            or not (row.outcome.was_run or row.reason == event.reason)
        ]
        cases, run = self.run.project.cases, self.run.terms.run
        self.store.put(*events.not_built(cells, cases, event.reason, run, event.outcome))
        self.listener.unbuilt(name, event.reason, len(event.unit.cells))


def measure(
    ready: Ready,
    cases: Mapping[str, Case],
    terms: Terms,
    *,
    doubted: Callable[[Observation, Environment], bool] = lambda *_: False,
    hear: Callable[[Event], None] = lambda _: None,
) -> tuple[Observation, ...]:
    """Run the cells of a prepared environment and return their rows; nothing is stored.

    `hear` is called with every event, also with what was measured before an interruption.
    A row that is `doubted` is repeated, and comes again with what the repeats gave.
    Raises UnbuildableError where the environment cannot start, or its cells cannot end.
    """
    unit = Unit(environment=ready.environment.name, cells=ready.cells)
    pool = Pool(terms, cases, lambda _: ready, doubted)
    rows: dict[Cell, Observation] = {}
    try:
        with contextlib.closing(pool.run([unit])) as happening:
            for event in happening:
                hear(event)
                if isinstance(event, Observation):
                    rows[event.cell] = event
                elif isinstance(event, Unbuilt | events.Lost):
                    raise UnbuildableError(event.reason)
    except Interrupted:
        for row in pool.left():
            hear(row)
        raise
    return tuple(rows.values())
