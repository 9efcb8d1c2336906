"""Measure scripts of the sweep on releases as cases are measured: one store, any engine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from repromatrix.runner.evidence.store import Store
from repromatrix.runner.evidence.swept.changes import Found
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Engine, Run, RunListener, RunTally, known_rows
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.selection import Selection
from repromatrix.runner.project import Project
from repromatrix.sweep.baseline import published_of, to_measure
from repromatrix.sweep.cells import cell_of, kind_and_probes, records
from repromatrix.sweep.recipe_files import ModelRecipe


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepRunner:
    """Runs scripts of the sweep, and keeps what they answer."""

    project: Project
    store: Store
    jobs: int
    sandbox: bool
    listener: RunListener
    rerun: bool = False
    until: float = math.inf
    """When nothing is begun any more, on the monotonic clock."""
    engine: Callable[[Run], AbstractContextManager[Engine | None]] = lambda _: (
        contextlib.nullcontext()
    )
    """What runs the scripts; this machine where it yields None."""
    largest: int = 0
    """The most scripts of a release that one node of a cluster gets; 0 for all of them."""
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    """How many cells were `measured` so far, and how many are `left` because time was up."""

    def measure(self, by_release: Mapping[str, Mapping[str, Case]]) -> RunTally:
        """Run the scripts of each release that have no answer yet, all releases in one run."""
        planned = self.planned(by_release)
        with self.engine(planned) as engine:
            tally = planned.execute(self.store, self.listener, engine=engine)
        self.counts["measured"] += tally.measured
        self.counts["left"] += len(tally.left)
        return tally

    def planned(self, by_release: Mapping[str, Mapping[str, Case]]) -> Run:
        """Return the run of some scripts on some releases."""
        cases = {name: case for some in by_release.values() for name, case in some.items()}
        loaded = dataclasses.replace(self.project, cases=cases)
        only = {
            cell_of(case, release) for release, some in by_release.items() for case in some.values()
        }
        rows = [row for row in self.store.rows(cases) if row.cell in only]
        return Run(
            project=loaded,
            selection=Selection(
                cases=frozenset(cases),
                environments=frozenset(by_release),
                precisions=frozenset({Precision.FP32}),
                workarounds=None,
                device=Device.CPU,
                only=frozenset(only),
            ),
            terms=Terms(
                limits=loaded.matrix.limits,
                device=Device.CPU,
                jobs=self.jobs,
                sandbox=self.sandbox,
                witness=False,
                until=self.until,
            ),
            known=known_rows(rows, loaded),
            rerun=self.rerun,
            largest=self.largest,
        )

    def rows(self, release: str, cases: Mapping[str, Case]) -> list[Observation]:
        """Return the current answers of some scripts on a release."""
        return [*self.planned({release: cases}).known.values()]


class MeasuredSides(NamedTuple):
    """Two releases, measured to be compared."""

    names: tuple[str, str]
    """The older one first."""
    older: Found
    newer: Found
    as_published: int
    """Cells of the older release that were not measured: what was published of them stands."""
    unbuilt: bool
    interrupted: bool


def measure_sides(
    runner: SweepRunner, sides: Mapping[str, Mapping[str, Case]], published: Found
) -> MeasuredSides:
    """Measure two releases, the older one first in `sides`, or one that is held against itself.

    With `published`, what the older one is known to do, only those of its cells are measured that
    do otherwise on the newer one, or that are not among it.
    """
    measured = [*sides.items()]
    (against, older), (release, newer) = measured[0], measured[-1]
    tally = runner.measure({release: newer} if published else sides)
    found = records(runner.rows(release, newer))
    unbuilt, interrupted = bool(tally.unbuilt), tally.interrupted
    known = {row.cell.case for row in runner.rows(against, older)}
    due = to_measure(older, published, found)
    if published and due and not interrupted:
        tally = runner.measure({against: due})
        unbuilt, interrupted = unbuilt or bool(tally.unbuilt), tally.interrupted
    standing = older.keys() - due.keys() - known
    before = {**published_of(published, standing), **records(runner.rows(against, older))}
    names = (against, release)
    return MeasuredSides(names, before, found, len(standing), unbuilt, interrupted)


def payload(rows: Iterable[Observation]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what cells answered, each with its architecture; what ended badly says why."""
    for row in rows:
        kind, _ = kind_and_probes(row.cell.case)
        if row.outcome is Outcome.PASSES:
            yield kind, json.loads(row.output)
        else:
            yield kind, {"refused": row.described, "kind": "other"}


def recipes_there(
    recipes: Mapping[str, ModelRecipe], release: str, loaded: Project
) -> list[ModelRecipe]:
    """Return the recipes whose home is not younger than a release; on `main` all."""
    names = [*releases_of(loaded), MAIN]
    known = {*names[: names.index(release) + 1]}
    return [recipe for recipe in recipes.values() if recipe.home in known]


def releases_of(loaded: Project) -> list[str]:
    """Return the published releases in their order, without extras, pairs and `main`."""
    return [
        name
        for name, environment in loaded.environments.items()
        if environment.source is Source.RELEASE and not environment.extras
    ]
