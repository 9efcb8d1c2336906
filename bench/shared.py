"""What several parts of the bench do: environments made ready, the runner started, times taken."""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.pool import wanted_imports
from repromatrix.runner.execution.worker_client import worker_environ
from repromatrix.runner.model.cell import belongs, cells_of
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import ROOT
from repromatrix.runner.planning.plan import applicable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from repromatrix.runner.environments.building import Built
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project

    Row = Callable[..., None]

HERE = Path(__file__).parent
CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An environment that is built, with the cells of the corpus that apply in it."""

    name: str
    built: Built
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the main job with an empty store."""

    seconds: float
    rows: list[Observation]

    @property
    def own(self) -> float:
        """Return the seconds that the cells' own code took, each measured in its child."""
        return sum(row.seconds or 0 for row in self.rows)


def prepared(loaded: Project, releases: Iterable[str]) -> list[Prepared]:
    """Build releases, and what is derived from them; those without cells are left out."""
    names = [name for name in loaded.names if name.partition("+")[0] in set(releases)]
    found = []
    for name in names:
        environment = loaded.environments[name]
        every = [
            cell
            for case in loaded.cases.values()
            if belongs(case, environment)
            for cell in cells_of(case, name, loaded.matrix.precisions, Device.CPU)
        ]
        cells = applicable(every, loaded.cases, environment)
        if cells:
            built = building.build(loaded.paths, project.recipe(loaded, name))
            found.append(Prepared(name=name, built=built, cells=cells))
    return found


def environ(folder: str) -> dict[str, str]:
    """Return the environment of a run whose store and site lie in a folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "REPROMATRIX_STORE": f"{folder}/evidence.sqlite",
        "REPROMATRIX_SITE": f"{folder}/site",
    }


def matrix(*options: str) -> Run:
    """Run the main job with an empty store; raises SystemExit where it could not be run."""
    command = [sys.executable, "-m", "repromatrix", "matrix", *options]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        done = subprocess.run(
            command, env=environ(folder), cwd=ROOT, capture_output=True, check=False
        )
        seconds = time.perf_counter() - begin
        if done.returncode not in {0, 1}:
            raise SystemExit(done.stderr.decode())
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as store:
            return Run(seconds=seconds, rows=list(store.rows()))


def floor(built: Built, cases: Iterable[Case]) -> tuple[float, float]:
    """Return one import of what cases need and the median empty fork, in seconds."""
    return _floor(built, wanted_imports(cases))


def torch_alone(built: Built) -> float:
    """Return the seconds that importing torch takes."""
    return _floor(built, {"modules": ["torch"], "names": {}})[0]


def _floor(built: Built, imported: dict[str, object]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [built.python, HERE / "floor.py", json.dumps(imported)],
            env=worker_environ(Path(folder), Device.CPU, 1) | {"HOME": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(answer.stdout)
    return found["import"], found["fork"]


def drawn(cells: Sequence[Cell], number: int) -> list[Cell]:
    """Draw cells, always the same ones."""
    chosen = random.Random(0).sample(range(len(cells)), min(number, len(cells)))  # noqa: S311
    return [cells[index] for index in sorted(chosen)]


def spent() -> float:
    """Return the processor seconds of every process that was started from here and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Return the median seconds of three runs of a command."""
    return statistics.median(_timed(command, environment) for _ in range(3))


def _timed(command: Sequence[str], environment: dict[str, str] | None) -> float:
    begin = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    return time.perf_counter() - begin
