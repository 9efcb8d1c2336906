"""Time the whole corpus on some releases beside a plain loop and the floor, or another checkout.

A first run builds environments and compiles bytecode, and is not timed. Compare ratios, because
machines are shared and noisy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from checks import against, runs
from checks.runs import CORES, Prepared, Ran
from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.project import Project

RELEASES = ("4.50.0", "4.53.3", "5.0.0", "5.23.0")
PLAIN = 48
"""Cells of the plain loop, drawn at random: all of them would take it an hour."""


def check(table: Table, options: argparse.Namespace) -> None:
    """Time it beside what was asked for."""
    releases = options.release.split(",") if options.release else []
    if options.against:
        table.check = "against"
        against.compare(table, options.against, releases or against.RELEASES)
    else:
        _alone(table, releases or RELEASES)


def _alone(table: Table, releases: Sequence[str]) -> None:
    loaded = project.load(Paths())
    environments = runs.prepared(loaded, releases)
    cells = [cell for one in environments for cell in one.cells]
    table.row("cells", len(cells), "cells", f"{len(loaded.cases)} cases on {', '.join(releases)}")
    runs.ran(ROOT, releases)
    first = runs.ran(ROOT, releases)
    plain = _plain(loaded, environments, runs.drawn(cells, PLAIN)) * len(cells) / PLAIN
    both = (first, runs.ran(ROOT, releases))
    seconds = statistics.median(run.seconds for run in both)
    table.row("runner", seconds, "s", " and ".join(f"{run.seconds:.1f}" for run in both))
    table.row("plain loop", plain, "s", f"from {PLAIN} of them, drawn at random")
    table.row("plain loop / runner", plain / seconds, "times", "wanted: at least 15")
    _beside_floor(table, loaded, environments, both)


def _plain(loaded: Project, environments: Sequence[Prepared], cells: Sequence[Cell]) -> float:
    """Time a fresh interpreter for each of some cells, as many at once as there are cores."""
    pythons = {one.name: one.built.python for one in environments}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environ = kept | threads | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}

    def run(cell: Cell) -> None:
        words = filter(None, (loaded.cases[cell.case].path, cell.precision, cell.workaround))
        command = [str(pythons[cell.environment]), *words]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(command, env=environ, cwd=folder, capture_output=True, check=False)

    begin = time.perf_counter()
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(run, cells))
    return time.perf_counter() - begin


def _beside_floor(
    table: Table, loaded: Project, environments: Sequence[Prepared], both: Sequence[Ran]
) -> None:
    found = []
    for one in environments:
        names = dict.fromkeys(cell.case for cell in one.cells)
        found.append(runs.floor(one.built, [loaded.cases[name] for name in names]))
    imports = sum(seconds for seconds, _ in found)
    fork = statistics.median(seconds for _, seconds in found)
    own = statistics.median(run.own for run in both)
    total = sum(len(one.cells) for one in environments)
    least = (imports + total * fork + own) / CORES
    parts = f"({imports:.1f} imports + {total * fork:.1f} forks + {own:.1f} cells) / {CORES}"
    table.row("floor", least, "s", parts)
    seconds = statistics.median(run.seconds for run in both)
    table.row("runner / floor", seconds / least, "times", "wanted: at most 1.15")
    table.row("one import, median", statistics.median(seconds for seconds, _ in found), "s")
    table.row("one empty fork", fork * 1000, "ms")
