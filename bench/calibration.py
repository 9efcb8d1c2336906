"""What imports, forks, cells and the driver cost here, and how well the model foretells a run."""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import simulation  # noqa: E402

from repromatrix.runner import project  # noqa: E402
from repromatrix.runner.environments import building  # noqa: E402
from repromatrix.runner.evidence.store import Store  # noqa: E402
from repromatrix.runner.execution.events import Terms  # noqa: E402
from repromatrix.runner.execution.run import Recorder, Run, RunListener  # noqa: E402
from repromatrix.runner.model.outcomes import Device  # noqa: E402
from repromatrix.runner.paths import Paths  # noqa: E402
from repromatrix.runner.planning.selection import SelectionRequest, select  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project

    Row = Callable[..., None]

LEARNT = ("4.51.0", "5.0.0")
FORETOLD = ("4.50.0", "4.53.0", "4.57.1", "5.23.0")
SLICE = "gemma3*"
JOBS = 2
EVENTS = 2000
ENOUGH = 500
BUILT = "REPROMATRIX_ENVIRONMENTS"


@dataclass(kw_only=True, slots=True)
class Timed(RunListener):
    """Notes when each environment imported, ran its first cell, and was done."""

    importing: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    over: dict[str, float] = field(default_factory=dict)
    seen: list[Observation] = field(default_factory=list)

    def phase(self, environment: str, doing: str) -> None:
        """Note when a worker imports, and when it is sent its first cells."""
        if doing == "importing":
            self.importing.setdefault(environment, time.monotonic())
        elif doing != "building":
            self.ready.setdefault(environment, time.monotonic())

    def measured(self, row: Observation, _verdict: object) -> None:
        """Note a cell."""
        if row.repeats == 1:
            self.seen.append(row)

    def unbuilt(self, environment: str, reason: str, _cells: int) -> None:
        """End: without its environment nothing can be measured."""
        msg = f"{environment}: {reason}"
        raise SystemExit(msg)

    def done(self, environment: str) -> None:
        """Note the end."""
        self.over[environment] = time.monotonic()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A real run: who was heard when, and how long it took."""

    heard: Timed
    seconds: float


def run(loaded: Project, releases: Sequence[str]) -> Ran:
    """Run a slice with an empty store."""
    planned = _campaign(loaded, releases)
    heard = Timed()
    with tempfile.TemporaryDirectory() as folder, _store(folder) as store:
        begin = time.monotonic()
        planned.execute(store, heard)
        return Ran(heard=heard, seconds=time.monotonic() - begin)


def _store(folder: str) -> closing[Store]:
    return closing(Store(Path(folder) / "evidence.sqlite", print))


def _campaign(loaded: Project, releases: Sequence[str]) -> Run:
    return Run(
        project=loaded,
        selection=select(
            SelectionRequest(case=[SLICE], release=list(releases)), loaded.cases, loaded.names
        ),
        terms=Terms(limits=loaded.matrix.limits, device=Device.CPU, jobs=JOBS),
        known={},
    )


def costs(loaded: Project, *runs: Ran) -> simulation.Costs:
    """Return what runs cost, piece by piece."""
    seen = [row for one in runs for row in one.heard.seen]
    return simulation.Costs(
        begin=statistics.mean(begin for one in runs for begin in _begins(one.heard)),
        build=_build(loaded),
        fork=statistics.mean(beside for one in runs for beside in _beside(one.heard)),
        driver=_driver(loaded, seen),
        cells=tuple(row.seconds for row in seen if row.seconds is not None),
    )


def _begins(heard: Timed) -> list[float]:
    return [heard.ready[name] - heard.importing[name] for name in heard.over]


def _beside(heard: Timed) -> list[float]:
    """Return what a cell took beside its own time, by environment."""
    found = []
    for name, over in heard.over.items():
        own = [row.seconds or 0.0 for row in heard.seen if row.cell.environment == name]
        found.append(max(0.0, over - heard.ready[name] - sum(own)) / len(own))
    return found


def _build(loaded: Project) -> float:
    """Return what one environment takes to be put together anew, its packages being at hand."""
    recipe, kept = project.recipe(loaded, LEARNT[0]), os.environ.get(BUILT)
    with tempfile.TemporaryDirectory(dir=loaded.paths.built) as folder:
        os.environ[BUILT] = folder
        begin = time.monotonic()
        building.build(loaded.paths, recipe)
        seconds = time.monotonic() - begin
    if kept is None:
        del os.environ[BUILT]
    else:
        os.environ[BUILT] = kept
    return seconds


def _driver(loaded: Project, seen: Sequence[Observation]) -> float:
    """Return what an observation takes in the driver: judged, stored, counted."""
    rows = [row for _ in range(1 + EVENTS // len(seen)) for row in seen][:EVENTS]
    quiet = Timed()
    with tempfile.TemporaryDirectory() as folder, _store(folder) as store:
        hearing = Recorder(_campaign(loaded, LEARNT), store, quiet, lambda _: None, ())
        begin = time.process_time()
        for row in rows:
            hearing.hear(row)
        return (time.process_time() - begin) / len(rows)


def foretold(loaded: Project, known: Sequence[Ran], learnt: simulation.Costs) -> float:
    """Return how long the model says that the other slice takes, by what the first one took."""
    took: dict[tuple[str, ...], list[float]] = {}
    for row in (row for one in known for row in one.heard.seen):
        took.setdefault(_variant(row), []).append(row.seconds or 0.0)
    typical = statistics.mean(learnt.cells)
    works = []
    for unit in _campaign(loaded, FORETOLD).units():
        cells = tuple(
            learnt.fork
            + statistics.mean(took.get((cell.case, cell.workaround, cell.precision), [typical]))
            for cell in unit.cells
        )
        works.append(simulation.Work(begin=learnt.begin, cells=cells))
    return simulation.simulate(works, JOBS, learnt.driver).wall


def _variant(row: Observation) -> tuple[str, ...]:
    return row.cell.case, row.cell.workaround, row.cell.precision


def measure(row: Row) -> None:
    """Measure the costs, hold the model against another real run, print the table."""
    loaded = project.load(Paths())
    for name in (*LEARNT, *FORETOLD):
        building.build(loaded.paths, project.recipe(loaded, name))
    run(loaded, FORETOLD[:1])  # warm: files read, bytecode there
    # Before and behind: a machine that others use is not the same all the time.
    known, real, again = run(loaded, LEARNT), run(loaded, FORETOLD), run(loaded, LEARNT)
    found = costs(loaded, known, again)
    row("one import, until the first cell", found.begin, "s")
    row("one environment built", found.build, "s")
    row("a cell, beside its own time", found.fork * 1000, "ms")
    row("a cell's own time, mean", statistics.mean(found.cells) * 1000, "ms")
    row(
        "the driver, per cell", found.driver * 1000, "ms", f"{1 / found.driver:,.0f} cells a second"
    )
    said = foretold(loaded, (known, again), found)
    cells = len(real.heard.seen)
    row("foretold", said, "s", f"{len(FORETOLD)} releases, {cells} cells, {JOBS} workers")
    row("really", real.seconds, "s")
    row("error of the model", 100 * (said / real.seconds - 1), "%")
    took = _taken(loaded)
    if len(took) >= ENOUGH:
        found = dataclasses.replace(found, cells=took)
        row("a cell of this machine's store, mean", statistics.mean(took) * 1000, "ms")
    for told in simulation.table(found):
        row(*told)


def _taken(loaded: Project) -> tuple[float, ...]:
    """Return what every twentieth cell of this machine's store took, in the order of that."""
    if not loaded.paths.store.exists():
        return ()
    with closing(Store(loaded.paths.store, print)) as store:
        return tuple(sorted(row.seconds for row in store.rows() if row.seconds is not None)[::20])
