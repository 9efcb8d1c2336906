"""A side that is a checkout: its sources, in the environment of a release, outside the grid."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.compare.diff import (
    Rows,
    answer,
    change,
    without_environment,
)
from repromatrix.runner.environments import building, development
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.environments.checkouts import Checkout
from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.evidence.grid import Grid, survey
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution import run
from repromatrix.runner.execution.events import Event, Phase, Ready, Tree
from repromatrix.runner.execution.run import RunListener
from repromatrix.runner.execution.worker_client import unimportable
from repromatrix.runner.judging.expectations import expected, judge
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Reading
from repromatrix.runner.planning.plan import applicable, missing

if TYPE_CHECKING:
    from repromatrix.runner.compare.sides import DiffRequest

_IMPORTING = frozenset({"ImportError", "ModuleNotFoundError"})
_WRAPPED = ("Failed to import ", "Could not import module ")
_FEW = 2
_EVERY = 1.0
"""Seconds between two looks whether a checkout was edited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckoutTrial:
    """An environment in which a checkout takes the place of a package, and the cells to run."""

    base: str
    environment: Environment
    cells: tuple[Cell, ...]
    due: tuple[Cell, ...]


class CheckoutRuns:
    """Measures a checkout; its rows go to the store of trials."""

    def __init__(self, asked: DiffRequest, checkout: Checkout, store: Store) -> None:
        """Look at how the checkout stands now: whatever is edited later is not what was asked."""
        self.asked = asked
        self.checkout = checkout
        self.store = store
        self.importable = False
        self.waiting: list[Observation] = []
        self.looked = 0.0
        self.marks = development.marks(checkout.folder)
        self.tree = Tree(
            package=checkout.package, path=checkout.root, kept=asked.project.places.kept
        )

    def trials(self, base: str, before: Rows) -> tuple[CheckoutTrial, ...]:
        """Return what is to be run on a release and on what is laid on top of it.

        That is what is not known, and what differs from the release and was not repeated.
        """
        return tuple(self._trial(name, before) for name in self.asked.environments(base))

    def _trial(self, base: str, before: Rows) -> CheckoutTrial:
        environment = self.checkout.within(self.asked.project.environments[base])
        cells = tuple(
            cell._replace(environment=environment.name) for cell in self.asked.cells(base)
        )
        cases = self.asked.project.cases
        rows = answering_rows(self.store.rows(), cases, {environment.name: environment})
        known = {one: row for one, row in rows.items() if not self._doubted(row, before)}
        due = applicable(cells, cases, environment)
        if not self.asked.rerun:
            due = missing(due, cases, environment, known)
        return CheckoutTrial(base=base, environment=environment, cells=cells, due=due)

    def _doubted(self, row: Observation, before: Rows) -> bool:
        return row.repeats == 1 and self._differs(row, before)

    def _differs(self, row: Observation, before: Rows) -> bool:
        case = self.asked.project.cases.get(row.cell.case)
        return (
            case is not None
            and change(case, before.get(without_environment(row.cell)), row).differs
        )

    def prepare(self, found: Iterable[CheckoutTrial]) -> tuple[Ready, ...]:
        """Build what the trials need, and look once whether the checkout can be imported there.

        Raises RunnerError (exit 4).
        """
        ready = tuple(map(self._ready, (one for one in found if one.due)))
        if ready and not self.importable:
            reason = unimportable(ready[0].built, self.tree, sandbox=self.asked.terms.sandbox)
            if reason:
                raise self._unimportable(ready[0].built.name, reason)
            self.importable = True
        return ready

    def _ready(self, trial: CheckoutTrial) -> Ready:
        return Ready(
            environment=trial.environment,
            built=self._built(trial.base),
            cells=trial.due,
            tree=self.tree,
        )

    def _built(self, name: str) -> Built:
        loaded = self.asked.project
        try:
            return building.build(loaded.places, project.recipe(loaded, name))
        except UnbuildableError as error:
            fault = OldFault(where=name, found=f"unbuildable: {error}", allowed="one that is built")
            raise refuse(fault, ExitCode.UNBUILDABLE) from error

    def run(self, ready: Iterable[Ready], before: Rows) -> None:
        """Run cells, repeating those that differ from the other side; raises RunnerError."""
        every = tuple(ready)
        if not every:
            return
        with self.asked.watched() as audience:
            audience.began(len(every), sum(len(one.cells) for one in every))
            for one in every:
                self._run(one, before, audience)

    def _run(self, ready: Ready, before: Rows, audience: RunListener) -> None:
        cases = self.asked.project.cases

        def differs(row: Observation, _: Environment) -> bool:
            return self._differs(row, before)

        def hear(event: Event) -> None:
            match event:
                case Observation():
                    self._keep(event)
                    entry = expected(cases[event.cell.case], event.cell, ready.environment)
                    audience.measured(event, judge(entry, event))
                case Phase():
                    audience.phase(event.environment, event.doing)
                case _:
                    pass

        try:
            run.measure(ready, cases, self.asked.terms, doubted=differs, hear=hear)
        except UnbuildableError as error:
            raise self._unimportable(ready.built.name, str(error)) from error
        finally:
            self.store_waiting()
        audience.done(ready.environment.name)

    def _keep(self, row: Observation) -> None:
        """Store a row once it is sure that nothing was edited until it was there."""
        self.waiting.append(row)
        if time.monotonic() - self.looked > _EVERY:
            self.store_waiting()

    def store_waiting(self) -> None:
        """Store what waits; raises RunnerError where it may have run something else by now."""
        rows, self.waiting = self.waiting, []
        self.looked = time.monotonic()
        if rows and development.marks(self.checkout.folder) != self.marks:
            fault = OldFault(
                where=str(self.checkout.folder),
                found="a file that was edited while its cells ran",
                allowed="sources that stand still",
                fix="Start again; what was measured before the edit is kept as such.",
            )
            raise refuse(fault)
        self.store.put(*rows)

    def side(self, found: Iterable[CheckoutTrial], before: Rows) -> Rows:
        """Return what is known of the checkout; raises RunnerError (exit 4).

        It is raised where no case could import it though cases pass on the other side.
        """
        trials_ = tuple(found)
        seen = dict(self._seen(trials_))
        reason = _imports_nothing(seen, before)
        if reason:
            raise self._unimportable(trials_[0].base, reason)
        return seen

    def _seen(self, found: Iterable[CheckoutTrial]) -> Iterator[tuple[Cell, Observation]]:
        cases, rows = self.asked.project.cases, list(self.store.rows())
        for trial in found:
            environments = {trial.environment.name: trial.environment}
            wanted = frozenset(trial.cells)
            grid = Grid(
                cases={name: cases[name] for name in dict.fromkeys(c.case for c in trial.cells)},
                environments=environments,
                precisions=self.asked.project.matrix.precisions,
                devices=(self.asked.terms.device,),
            )
            for row in survey(grid, answering_rows(rows, cases, environments)):
                if row.cell in wanted:
                    yield without_environment(row.cell), row

    def _unimportable(self, base: str, reason: str) -> Exception:
        fault = OldFault(
            where=str(self.checkout.root),
            found=f"{self.checkout.package} cannot be imported in the environment of {base}:"
            f" {' '.join(reason.split())}",
            allowed="sources that fit the other packages of the release",
            fix="Name another base release, as a rule the newest before the checkout.",
        )
        return refuse(fault, ExitCode.UNBUILDABLE)


def _imports_nothing(after: Rows, before: Rows) -> str:
    """Return the reason where every case of several fails to import what it could before."""
    bad = {cell: row for cell, row in after.items() if answer(row) is Reading.BAD}
    answered = [cell for cell, row in after.items() if answer(row) in {Reading.GOOD, Reading.BAD}]
    good_before = any(answer(before.get(cell)) is Reading.GOOD for cell in bad)
    several = len({cell.case for cell in bad}) >= _FEW
    if len(bad) < len(answered) or not several or not good_before:
        return ""
    heads = [_importing(row) for row in bad.values()]
    return max(sorted(set(heads)), key=heads.count) if all(heads) else ""


def _importing(row: Observation) -> str:
    failed = row.failed
    if failed is None:
        return ""
    wrapped = failed.message.startswith(_WRAPPED)
    text = f"{failed.error_class}: {' '.join(failed.message.split())}"
    return text[:400] if failed.error_class in _IMPORTING or wrapped else ""
