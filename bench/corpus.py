"""The whole corpus on some releases: the runner beside a plain loop, the floor, and pytest.

Everything is warm: environments built, bytecode compiled, the same run made once before it is
timed. Machines are shared and noisy, so what counts are the ratios.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shared
from shared import CORES, HERE

from repromatrix.runner import project
from repromatrix.runner.environments.building import site_packages
from repromatrix.runner.execution.pool import wanted_imports
from repromatrix.runner.execution.worker_client import Start, Worker, worker_environ
from repromatrix.runner.model.case import Isolation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared import Prepared, Row, Run

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.project import Project

RELEASES = ("4.50.0", "4.53.3", "5.0.0", "5.23.0")
PLAIN = 48
"""Cells of the plain loop, drawn at random: all of them would take it an hour."""
WARM = 150
"""Cells that are run forked and in one process, drawn at random."""
_SLOW = 2.0
_PYTEST = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")


def measure(row: Row, releases: Sequence[str] = RELEASES) -> None:
    """Measure the whole corpus on some releases; `row` prints one number."""
    loaded = project.load(Paths())
    environments = shared.prepared(loaded, releases)
    cells = [cell for one in environments for cell in one.cells]
    row("cells", len(cells), "cells", f"{len(loaded.cases)} cases on {', '.join(releases)}")
    options = ("--release", ",".join(releases))
    shared.matrix(*options)
    first = shared.matrix(*options)
    plain = _plain(loaded, environments, shared.drawn(cells, PLAIN)) * len(cells) / PLAIN
    second = shared.matrix(*options)
    _beside_plain(row, (first, second), plain)
    _beside_floor(row, loaded, environments, (first, second))
    newest = next(one for one in environments if one.name == releases[-1])
    _beside_pytest(row, loaded, newest, second)


def _beside_plain(row: Row, runs: Sequence[Run], plain: float) -> None:
    seconds = statistics.median(run.seconds for run in runs)
    row("runner", seconds, "s", " and ".join(f"{run.seconds:.1f}" for run in runs))
    row("plain loop", plain, "s", f"from {PLAIN} of them, drawn at random")
    row("plain loop / runner", plain / seconds, "times", "wanted: at least 15")


def _beside_floor(
    row: Row, loaded: Project, environments: Sequence[Prepared], runs: Sequence[Run]
) -> None:
    found = [shared.floor(one.built, _cases(loaded, one.cells)) for one in environments]
    imports = sum(seconds for seconds, _ in found)
    fork = statistics.median(seconds for _, seconds in found)
    own = statistics.median(run.own for run in runs)
    total = sum(len(one.cells) for one in environments)
    least = (imports + total * fork + own) / CORES
    parts = f"({imports:.1f} imports + {total * fork:.1f} forks + {own:.1f} cells) / {CORES}"
    row("floor", least, "s", parts)
    seconds = statistics.median(run.seconds for run in runs)
    row("runner / floor", seconds / least, "times", "wanted: at most 1.15")
    row("one import, median", statistics.median(seconds for seconds, _ in found), "s")
    row("one empty fork", fork * 1000, "ms")


def _cases(loaded: Project, cells: Sequence[Cell]) -> list[Any]:
    return [loaded.cases[name] for name in dict.fromkeys(cell.case for cell in cells)]


def _plain(loaded: Project, environments: Sequence[Prepared], cells: Sequence[Cell]) -> float:
    """Time the plain loop on some cells."""
    pythons = {one.name: str(one.built.python) for one in environments}
    commands = [
        [pythons[cell.environment], loaded.cases[cell.case].path, cell.precision, cell.workaround]
        for cell in cells
    ]
    commands = [command if command[-1] else command[:-1] for command in commands]
    loop = [sys.executable, HERE / "plain_loop.py"]
    begin = time.perf_counter()
    subprocess.run(loop, input=json.dumps(commands), text=True, check=True, capture_output=True)
    return time.perf_counter() - begin


def _beside_pytest(row: Row, loaded: Project, newest: Prepared, run: Run) -> None:
    """Compare a forked cell with one that shares a warm process with all others."""
    quiet = {one.cell for one in run.rows if _is_quiet(loaded, one)}
    cells = shared.drawn([cell for cell in newest.cells if cell in quiet], WARM)
    together = _together(loaded, newest, cells)
    cells = cells[: len(together["first"])]
    forked = _forked(loaded, newest, cells, witness=True)
    blind = _forked(loaded, newest, cells, witness=False)
    fork = shared.floor(newest.built, _cases(loaded, cells))[1]
    per_cell = together["seconds"] / len(cells)
    row("a cell, forked", forked["seconds"] * 1000, "ms", f"{len(cells)} cells of {newest.name}")
    row("a cell, all in one process under pytest", per_cell * 1000, "ms", "nothing is isolated")
    row("difference", (forked["seconds"] - per_cell) * 1000, "ms", "wanted: at most 60")
    inside = statistics.mean(together["first"])
    row("… the empty fork", fork * 1000, "ms")
    row("… first use, and pages copied", (blind["own"] - inside) * 1000, "ms")
    row("… the witness", (forked["own"] - blind["own"]) * 1000, "ms")
    row("… report and sweep", (forked["seconds"] - forked["own"] - fork) * 1000, "ms")
    row("… less what pytest itself takes", (inside - per_cell) * 1000, "ms")


def _is_quiet(loaded: Project, one: Any) -> bool:  # noqa: ANN401
    """Say whether a cell can share a process: it neither ends it nor takes long."""
    forks = loaded.cases[one.cell.case].block.isolation is Isolation.FORK
    ends = one.outcome in {Outcome.PASSES, Outcome.FAILS}
    return forks and ends and (one.seconds or 0) < _SLOW


def _requests(loaded: Project, cells: Sequence[Cell], *, witness: bool) -> list[dict[str, Any]]:
    limits = loaded.matrix.limits
    return [
        {
            "id": number,
            "case": loaded.cases[cell.case].path,
            "precision": str(cell.precision),
            "workaround": cell.workaround,
            "device": "cpu",
            "exercises": str(loaded.cases[cell.case].block.exercises),
            "fresh": False,
            "witness": witness,
            "seconds": limits.seconds,
            "memory": limits.memory,
            "disk": limits.disk,
            "processes": limits.processes,
            "ranks": loaded.cases[cell.case].block.processes,
            "threads": 1,
            "front": None,
        }
        for number, cell in enumerate(cells)
    ]


def _forked(
    loaded: Project, newest: Prepared, cells: Sequence[Cell], *, witness: bool
) -> dict[str, float]:
    """Return the mean seconds of a cell from request to answer, and of its own code."""
    preload = wanted_imports(_cases(loaded, cells))
    built = newest.built
    start = Start(built=built, device=Device.CPU, preload=preload, fork=True, slots=1, threads=1)
    worker = Worker(start)
    requests = _requests(loaded, cells, witness=witness)
    try:
        begin = time.perf_counter()
        answers = [answer for _, answer in worker.run(requests)]
        seconds = time.perf_counter() - begin
    finally:
        worker.close()
    own = statistics.mean(answer.get("seconds", 0) for answer in answers)
    return {"seconds": seconds / len(cells), "own": own}


def _together(loaded: Project, newest: Prepared, cells: Sequence[Cell]) -> dict[str, Any]:
    """Run cells under pytest in one process, and return what the session and each of them took."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "pytest").mkdir()
        for name in _PYTEST:
            (here / "pytest" / name).symlink_to(site_packages(Path(sys.prefix)) / name)
        asked = {
            "preload": wanted_imports(_cases(loaded, cells)),
            "cells": _requests(loaded, cells, witness=False),
            "answers": str(here / "answers"),
        }
        (here / "asked.json").write_text(json.dumps(asked))
        # A copy: beside the original pytest would find our own tests' configuration.
        program = shutil.copy(HERE / "in_process.py", here)
        command = [newest.built.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        subprocess.run(
            [*command, program],
            env=worker_environ(here, Device.CPU, 1)
            | {"PYTHONPATH": str(here / "pytest"), "BENCH_ASKED": str(here / "asked.json")},
            cwd=here,
            capture_output=True,
            check=False,
            timeout=600,
        )
        return _told((here / "answers").read_text())


def _told(answers: str) -> dict[str, Any]:
    """Read what the session wrote: its first cell's begin, each cell's seconds and end."""
    lines = [json.loads(line) for line in answers.splitlines()]
    seconds = lines[-1]["ended"] - lines[0]["began"]
    return {"seconds": seconds, "first": [line["seconds"] for line in lines]}
