"""The same cells on the local pool and on a Ray cluster of the same cores, turn by turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner.evidence.store import Store
from repromatrix.runner.paths import ROOT

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from clusters import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CORES = len(os.sched_getaffinity(0))
_TURNS = 2
RELEASES = ("4.50.0", "4.53.3", "5.0.0", "5.23.0")


def measure(row: Callable[..., None], releases: Sequence[str] = RELEASES) -> None:
    """Print both times and their ratio; the cluster is up, and both ways have run once."""
    command = [sys.executable, "-m", "repromatrix", "matrix", "--release", ",".join(releases)]
    with tempfile.TemporaryDirectory() as folder, nodes(Path(folder), 1, CORES) as cluster:
        ways = {"local": command, "cluster": [*command, "--ray", cluster.address]}
        for way in ways.values():
            _run([*way, "--case", "gemma3_fp16_overflow"])
        found: dict[str, list[float]] = {name: [] for name in ways}
        cells: dict[str, int] = {}
        for turn in range(_TURNS):
            # Whoever goes first meets colder caches: they take turns.
            for name in sorted(ways, reverse=bool(turn % 2)):
                seconds, cells[name] = _run(ways[name])
                found[name].append(seconds)
    local, there = (statistics.median(found[name]) for name in ("local", "cluster"))
    row("cells", cells["local"], "cells", f"the whole corpus on {', '.join(releases)}")
    row("local pool", local, "s", _each(found["local"]))
    row("Ray, its cluster up", there, "s", f"{_each(found['cluster'])}; {cells['cluster']} cells")
    pairs = zip(found["cluster"], found["local"], strict=True)
    ratios = _each([one / other for one, other in pairs])
    row("Ray / local pool", there / local, "times", f"{ratios}; wanted: at most 1.1")


def _each(numbers: Sequence[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in numbers)


def _run(command: Sequence[str]) -> tuple[float, int]:
    """Run with a store of its own; return the seconds and the number of stored cells."""
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "REPROMATRIX_STORE": f"{folder}/evidence.sqlite",
            "REPROMATRIX_SITE": f"{folder}/site",
        }
        begin = time.perf_counter()
        done = subprocess.run(
            command, env=os.environ | own, cwd=ROOT, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - begin
        if done.returncode not in {0, 1}:
            raise SystemExit(done.stderr)
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as store:
            return seconds, sum(1 for _ in store.rows())
