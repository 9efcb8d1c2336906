"""The same cells run in several ways, by the pool that every run uses, with an empty store."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Ready, Terms, Unbuilt
from repromatrix.runner.execution.pool import Pool
from repromatrix.runner.execution.run import Run, RunListener
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project


class Kind(NamedTuple):
    """What two runs of a cell have in common: the outcome, and the first line of its error."""

    outcome: Outcome
    error: str


Seen = dict["Cell", Kind]
CORES = len(os.sched_getaffinity(0))
"""How many cells run at once. With one environment they share it, in no certain order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """How cells are run; as it stands here they are run as `matrix` runs them."""

    fork: bool = True
    witness: bool = True
    threads: int = 1
    hash_seed: str = "0"
    seed: str = "0"
    sandbox: bool = False
    backwards: bool = False


AS_MATRIX = Way()


class UnbuiltError(Exception):
    """An environment could not be made; without it nothing is said of its cells."""


class _Nobody(RunListener):
    """Watches a run and says nothing."""

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        msg = f"{environment} is unbuildable ({cells} cells): {reason}"
        raise UnbuiltError(msg)


def kind(row: Observation) -> Kind:
    """Return what is compared of a row."""
    return Kind(row.outcome, row.failed.headline if row.failed else "")


def measure(
    loaded: Project,
    way: Way,
    *,
    releases: str = "",
    cases: Collection[str] = (),
    only: frozenset[Cell] | None = None,
) -> Seen:
    """Run cells once each, all that were asked for; raises UnbuiltError."""
    planned = _planned(loaded, way, releases, cases, only)

    def prepare(unit: Unit) -> Ready:
        ready = planned.prepare(unit)
        return dataclasses.replace(ready, cells=ready.cells[:: -1 if way.backwards else 1])

    engine = Pool(planned.terms, loaded.cases, prepare, lambda *_: False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evidence.sqlite"
        with closing(Store(path, _refuse)) as store:
            planned.execute(store, _Nobody(), engine=engine)
            return {row.cell: kind(row) for row in store.rows()}


def _refuse(text: str) -> None:
    raise AssertionError(text)


def _planned(
    loaded: Project,
    way: Way,
    releases: str = "",
    cases: Collection[str] = (),
    only: frozenset[Cell] | None = None,
) -> Run:
    """Return a run of cells in a way, on all cores."""
    wish = SelectionRequest(case=tuple(cases), release=(releases,) if releases else ())
    selection = dataclasses.replace(select(wish, loaded.cases, loaded.names), only=only)
    terms = Terms(
        run="check",
        limits=loaded.matrix.limits,
        device=Device.CPU,
        jobs=CORES,
        fork=way.fork,
        witness=way.witness,
        threads=way.threads,
        hash_seed=way.hash_seed,
        seed=way.seed,
        sandbox=way.sandbox,
    )
    return Run(project=loaded, selection=selection, terms=terms, known={})


def observed(
    loaded: Project, cells: Iterable[Cell], cases: Mapping[str, Case], way: Way = AS_MATRIX
) -> Iterator[Observation]:
    """Yield what cells do, of cases that may not be the corpus's own; raises UnbuiltError.

    They come by environment.
    """
    units = [
        Unit(environment=name, cells=tuple(some))
        for name, some in groupby(cells, key=lambda cell: cell.environment)
    ]
    planned = _planned(loaded, way)
    for event in Pool(planned.terms, cases, planned.prepare, lambda *_: False).run(units):
        if isinstance(event, Unbuilt):
            raise UnbuiltError(event.reason)
        if isinstance(event, Observation):
            yield event


def differing(one: Mapping[Cell, Kind], other: Mapping[Cell, Kind]) -> list[Cell]:
    """Return the cells that two runs do not say the same of; one that only one has is such."""
    return sorted(cell for cell in one.keys() | other.keys() if one.get(cell) != other.get(cell))
