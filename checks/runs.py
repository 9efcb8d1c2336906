"""What several checks time: prepared environments, the main job of a checkout, the floor."""

from __future__ import annotations

import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.environments.building import Built
from repromatrix.runner.execution.pool import wanted_imports
from repromatrix.runner.execution.worker_client import worker_environ
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, belongs, cells_of
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import applicable
from repromatrix.runner.project import Project

HERE = Path(__file__).parent
CORES = len(os.sched_getaffinity(0))
_KEYS = ("case", "workaround", "release", "precision", "device")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An environment that is built, with the cells of the corpus that apply in it."""

    name: str
    built: Built
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One run of the main job with an empty store; `processor` is that of all its processes."""

    seconds: float
    processor: float
    cells: frozenset[tuple[str, ...]]
    own: float
    """The seconds that the cells' own code took, each measured in its child."""


def prepared(loaded: Project, releases: Iterable[str]) -> list[Prepared]:
    """Build releases, and what is derived from them; those without cells are left out."""
    found = []
    for name in loaded.names:
        if name.partition("+")[0] not in {*releases}:
            continue
        environment = loaded.environments[name]
        every = [
            cell
            for case in loaded.cases.values()
            if belongs(case, environment)
            for cell in cells_of(case, name, loaded.matrix.precisions, Device.CPU)
        ]
        if cells := applicable(every, loaded.cases, environment):
            built = building.build(loaded.paths, project.recipe(loaded, name))
            found.append(Prepared(name=name, built=built, cells=cells))
    return found


def ran(
    checkout: Path,
    releases: Sequence[str],
    environments: Path | None = None,
    options: Sequence[str] = (),
) -> Ran:
    """Run the main job of a checkout; raises SystemExit where it could not be run."""
    with tempfile.TemporaryDirectory() as folder:
        built = {"REPROMATRIX_ENVIRONMENTS": str(environments or Paths().built)}
        told = environ(folder) | built
        began, used = time.perf_counter(), processor()
        printed(["matrix", "--release", ",".join(releases), *options], checkout, told)
        seconds, used = time.perf_counter() - began, processor() - used
        table = printed(["results", "--format", "csv"], checkout, told)
    # What was published has no seconds.
    rows = [row for row in csv.DictReader(table.splitlines()) if row["seconds"]]
    return Ran(
        seconds=seconds,
        processor=used,
        cells=frozenset(tuple(row[key] for key in _KEYS) for row in rows),
        own=sum(float(row["seconds"]) for row in rows),
    )


def printed(words: Sequence[str], checkout: Path, told: dict[str, str]) -> str:
    """Return what a command of a checkout prints; raises SystemExit where it fails."""
    command = [sys.executable, "-m", "repromatrix", *words]
    done = subprocess.run(
        command, env=told, cwd=checkout, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 1}:
        msg = f"{checkout}: {done.stderr}"
        raise SystemExit(msg)
    return done.stdout


def environ(folder: str) -> dict[str, str]:
    """Return the environment of a run whose store and site lie in a folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "REPROMATRIX_STORE": f"{folder}/evidence.sqlite",
        "REPROMATRIX_SITE": f"{folder}/site",
    }


def processor() -> float:
    """Return the processor seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def floor(built: Built, cases: Iterable[Case]) -> tuple[float, float]:
    """Return one import of what cases need and the median empty fork, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [built.python, HERE / "floor.py", json.dumps(wanted_imports(cases))],
            env=worker_environ(Path(folder), Device.CPU) | {"HOME": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(answer.stdout)
    return found["import"], found["fork"]


def drawn(cells: Sequence[Cell], number: int) -> list[Cell]:
    """Draw cells, always the same ones."""
    chosen = random.Random(0).sample(range(len(cells)), min(number, len(cells)))
    return [cells[index] for index in sorted(chosen)]
