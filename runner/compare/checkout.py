"""A side that is a checkout: its sources, in the environment of a release, outside the grid."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.compare.diff import Rows, change, without_environment
from repromatrix.runner.environments import building, development
from repromatrix.runner.environments.building import Recipe, UnbuildableError
from repromatrix.runner.environments.commits import Home, unmet
from repromatrix.runner.environments.development import Checkout
from repromatrix.runner.errors import ExitCode, Problem, refuse
from repromatrix.runner.evidence.answering import Grid, answering_rows, survey
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution import run
from repromatrix.runner.execution.events import Event, Phase, Ready, Tree
from repromatrix.runner.execution.run import RunListener
from repromatrix.runner.execution.worker_client import unimportable
from repromatrix.runner.judging.verdicts import expected, judge
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.plan import answered, applicable

if TYPE_CHECKING:
    from repromatrix.runner.compare.sides import DiffRequest

_EVERY = 1.0
"""Seconds between two checks whether the checkout was edited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckoutTrial:
    """An environment in which a checkout takes the place of a package, and the cells to run."""

    base: str
    environment: Environment
    recipe: Recipe | None
    """How it is built where the checkout needs more than the release has."""
    cells: tuple[Cell, ...]
    due: tuple[Cell, ...]


class CheckoutRuns:
    """Runs cells on a checkout; its rows go to the store of trials."""

    def __init__(self, asked: DiffRequest, checkout: Checkout, store: Store) -> None:
        """Record the state of the checkout: what is edited later is not what was asked about."""
        self.asked = asked
        self.checkout = checkout
        self.store = store
        self.importable = False
        self.waiting: list[Observation] = []
        self.looked = 0.0
        self.marks = development.marks(checkout.folder)
        self.tree = Tree(
            package=checkout.package, path=checkout.root, kept=asked.project.paths.kept
        )

    def trials(self, base: str, before: Rows) -> tuple[CheckoutTrial, ...]:
        """Return what is to be run on a release and on the environments that extend it.

        Those are cells without a result, and cells that differ from the release and ran once.
        """
        return tuple(self._trial(name, before) for name in self.asked.environments(base))

    def _trial(self, base: str, before: Rows) -> CheckoutTrial:
        own, recipe = self._described(base)
        environment = self.checkout.within(own)
        cells = tuple(
            cell._replace(environment=environment.name) for cell in self.asked.cells(base)
        )
        cases = self.asked.project.cases
        rows = answering_rows(self.store.rows(), cases, {environment.name: environment})
        known = {
            cell: row
            for cell, row in rows.items()
            if row.repeats > 1 or not self._differs(row, before)
        }
        due = applicable(cells, cases, environment)
        if not self.asked.rerun:
            due = tuple(
                cell for cell in due if not answered(known.get(cell), cases[cell.case], environment)
            )
        return CheckoutTrial(
            base=base, environment=environment, recipe=recipe, cells=cells, due=due
        )

    def _described(self, base: str) -> tuple[Environment, Recipe | None]:
        """Return the environment of the release, or one that has what the checkout declares.

        Raises RunnerError (exit 4).
        """
        loaded, declared = self.asked.project, self.checkout.declared
        release = loaded.environments[base]
        if not unmet(declared, release):
            return release, None
        home = Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks)
        on = taken_apart(base).base if release.extras else base
        return home.described(declared, release.extras, on)

    def setting(self, base: str) -> str:
        """Say in which environment the checkout runs, and how that differs from the release's."""
        own, _ = self._described(base)
        release = self.asked.project.environments[base]
        if own.name == base:
            return f"in the environment of {base}"
        changed = [
            f"{name} {own.version(name) or 'missing'}, not {release.version(name) or 'missing'}"
            for name in dict.fromkeys([*own.pins, *release.pins])
            if own.version(name) != release.version(name)
        ]
        needed = f"in an environment of what it declares that it needs, on {base}"
        return f"{needed}: {'; '.join(changed)}"

    def _differs(self, row: Observation, before: Rows) -> bool:
        case, cell = self.asked.project.cases.get(row.cell.case), without_environment(row.cell)
        return case is not None and change(case, before.get(cell), row, cell).differs

    def prepare(self, trials: Iterable[CheckoutTrial]) -> tuple[Ready, ...]:
        """Build what the trials need, and check once whether the checkout can be imported there.

        Raises RunnerError (exit 4).
        """
        ready = tuple(self._ready(trial) for trial in trials if trial.due)
        if ready and not self.importable:
            reason = unimportable(ready[0].built, self.tree, sandbox=self.asked.terms.sandbox)
            if reason:
                raise self._unimportable(ready[0].built.name, reason)
            self.importable = True
        return ready

    def _ready(self, trial: CheckoutTrial) -> Ready:
        loaded = self.asked.project
        try:
            recipe = trial.recipe or project.recipe(loaded, trial.base)
            built = building.build(loaded.paths, recipe)
        except UnbuildableError as error:
            raise unbuildable(trial.base, str(error)) from error
        return Ready(environment=trial.environment, built=built, cells=trial.due, tree=self.tree)

    def run(self, ready: Sequence[Ready], before: Rows) -> None:
        """Run cells, repeating those that differ from the other side; raises RunnerError."""
        if not ready:
            return
        with self.asked.watched() as listener:
            listener.began(len(ready), sum(len(part.cells) for part in ready))
            for part in ready:
                self._run(part, before, listener)

    def _run(self, ready: Ready, before: Rows, listener: RunListener) -> None:
        cases = self.asked.project.cases

        def differs(row: Observation, _: Environment) -> bool:
            return self._differs(row, before)

        def hear(event: Event) -> None:
            match event:
                case Observation():
                    self.waiting.append(event)
                    if time.monotonic() - self.looked > _EVERY:
                        self.store_waiting()
                    entry = expected(cases[event.cell.case], event.cell, ready.environment)
                    listener.measured(event, judge(entry, event))
                case Phase():
                    listener.phase(event.environment, event.doing)
                case _:
                    pass

        try:
            run.measure(ready, cases, self.asked.terms, doubted=differs, hear=hear)
        except UnbuildableError as error:
            raise self._unimportable(ready.built.name, str(error)) from error
        finally:
            self.store_waiting()
        listener.done(ready.environment.name)

    def store_waiting(self) -> None:
        """Store the waiting rows, after a check that nothing was edited while they were measured.

        Raises RunnerError where the checkout has been edited.
        """
        rows, self.waiting = self.waiting, []
        self.looked = time.monotonic()
        if rows and development.marks(self.checkout.folder) != self.marks:
            fault = Problem(
                str(self.checkout.folder),
                "the checkout changed while its cases were running",
                "Stop editing and run again; earlier results are kept.",
            )
            raise refuse(fault)
        self.store.put(*rows)

    def side(self, trials: Iterable[CheckoutTrial]) -> Rows:
        """Return what is known of the checkout."""
        cases, rows = self.asked.project.cases, list(self.store.rows())
        after = {}
        for trial in trials:
            environments = {trial.environment.name: trial.environment}
            wanted = frozenset(trial.cells)
            grid = Grid(
                cases={cell.case: cases[cell.case] for cell in trial.cells},
                environments=environments,
                precisions=self.asked.project.matrix.precisions,
                devices=(self.asked.terms.device,),
            )
            for row in survey(grid, answering_rows(rows, cases, environments)):
                if row.cell in wanted:
                    after[without_environment(row.cell)] = row
        return after

    def _unimportable(self, base: str, reason: str) -> Exception:
        package, reason = self.checkout.package, " ".join(reason.split())
        fault = Problem(
            str(self.checkout.root),
            f"{package} cannot be imported in the environment of {base}: {reason}",
            "Name another base release, usually the newest before the checkout.",
        )
        return refuse(fault, ExitCode.UNBUILDABLE)


def unbuildable(name: str, reason: str) -> Exception:
    """Return the error for an environment that cannot be built (exit 4)."""
    fault = Problem(name, f"the environment cannot be built ({reason})")
    return refuse(fault, ExitCode.UNBUILDABLE)
