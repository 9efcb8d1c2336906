"""One whole run before it begins: what is due, how it is built, what is doubted."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.environments import building, development
from repromatrix.runner.environments.building import Built
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.execution.events import NoTimeError, Ready, Terms
from repromatrix.runner.judging.expectations import covering, expected, is_current, judge, live
from repromatrix.runner.model.case import Failure
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import LOCAL, Observation
from repromatrix.runner.model.outcomes import Device, Verdict
from repromatrix.runner.planning.budget import Budget
from repromatrix.runner.planning.plan import Unit, answered, applicable, plan
from repromatrix.runner.planning.selection import Selection
from repromatrix.runner.project import Project, recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What is to be run, on what, with which evidence at hand."""

    project: Project
    selection: Selection
    terms: Terms
    known: Mapping[Cell, Observation]
    rerun: bool = False
    asked: frozenset[Cell] | None = None
    """The cells that decide something, where no others are to be run."""
    budget: Budget | None = None
    interpreter: tuple[Environment, Built] | None = None

    def selected(self, environment: str) -> tuple[Cell, ...]:
        """Return the cells of an environment that were asked for, applicable or not."""
        precisions = self.project.matrix.precisions
        described = self.project.environments[environment]
        return tuple(
            itertools.chain.from_iterable(
                self.selection.cells(case, environment, precisions, self.terms.device)
                for case in self.project.cases.values()
                if belongs(case, described)
            )
        )

    def due(self, environment: Environment) -> tuple[Cell, ...]:
        """Return the selected cells of an environment that are to be run."""
        cells = applicable(self.selected(environment.name), self.project.cases, environment)
        if self.asked is not None:
            cells = tuple(cell for cell in cells if cell in self.asked)
        if self.rerun:
            return cells
        if not self.known:
            return cells
        cases = self.project.cases
        entries = functools.cache(lambda name: live(cases[name], environment))

        def is_due(cell: Cell) -> bool:
            row = self.known.get(cell)
            if row is None or not answered(row, cases[cell.case], environment):
                return True
            return _is_unconfirmed(row, entries(cell.case))

        return tuple(filter(is_due, cells))

    def units(self) -> tuple[Unit, ...]:
        """Return what is to be run, coarse to fine, or by value where there is a budget.

        What `main` needs is known once it is built.
        """
        names = [name for name in self.project.names if name in self.selection.environments]
        units = plan(names, self._cells_in)
        return units if self.budget is None else self.budget.ordered(units)

    def expected(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return how many units and cells are likely to be run."""
        some = units if self.budget is None else self.budget.first(units)
        return len(some), sum(len(unit.cells) for unit in some)

    def _cells_in(self, name: str) -> tuple[Cell, ...]:
        environment = self.project.environments[name]
        return self.selected(name) if environment.source is Source.MAIN else self.due(environment)

    def prepare(self, unit: Unit) -> Ready:
        """Build the environment of a unit; raises UnbuildableError, or NoTimeError before it."""
        if self.budget is not None:
            unit = self.budget.fitting(unit)
            if not unit.cells:
                raise NoTimeError
            self.budget.begin(unit)
        cells = unit.cells
        environment, built = self._built(unit.environment)
        if environment.source is Source.MAIN:
            due = frozenset(self.due(environment))
            cells = tuple(cell for cell in cells if cell in due)
        return Ready(environment=environment, built=built, cells=cells)

    def _built(self, name: str) -> tuple[Environment, Built]:
        project = self.project
        if self.interpreter is not None:
            return self.interpreter
        if project.environments[name].source is Source.MAIN:
            return development.build_main(project.places, project.matrix, name)
        built = building.build(project.places, recipe(project, name))
        return project.environments[name], built

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

        It is when it is unexpected, or ran into our own limit of memory, and was not confirmed
        before; or when the cell was unstable: one lucky run does not make it stable.
        """
        doubtful = seen.hit_limit or self.verdict(seen, environment).is_surprise
        before = self.known.get(seen.cell)
        if before is None or not is_current(
            before, self.project.cases[seen.cell.case], environment
        ):
            return doubtful
        if before.unstable:
            return True
        confirmed = before.repeats > 1 and before.kind == seen.kind
        return doubtful and not confirmed


def _is_unconfirmed(row: Observation, entries: Sequence[Failure]) -> bool:
    """Say whether a cell surprised here, and the run ended before it was repeated."""
    if row.source != LOCAL or row.repeats > 1:
        return False
    return judge(covering(entries, row.cell), row).is_surprise


def local_terms(limits: Limits, device: Device, jobs: int, *, sandbox: bool = False) -> Terms:
    """Return how cells are run on this machine, under a new name."""
    return Terms(
        run=run_name(),
        limits=limits,
        device=device,
        jobs=jobs,
        # Elsewhere a forked process may not use the system's own libraries.
        fork=sys.platform == "linux",
        sandbox=sandbox,
    )


def run_name() -> str:
    """Return a name for this run, readable and different from every other on this machine."""
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + f"-{time.time_ns() % 10**6:06d}"


def known_rows(rows: Iterable[Observation], project: Project) -> dict[Cell, Observation]:
    """Return the observation that answers for each cell."""
    return answering_rows(rows, project.cases, project.environments)
