"""A million cells: planning them, keeping them, and `results` of 120,000.

`nox -s bench -- --scale`. Everything is made up from a fixed seed. Each part runs in a process of
its own, so that its peak memory is its own.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402

from repromatrix.runner import project  # noqa: E402
from repromatrix.runner.cli import results  # noqa: E402
from repromatrix.runner.cli.matrix import narrowed  # noqa: E402
from repromatrix.runner.evidence import answers  # noqa: E402
from repromatrix.runner.evidence.store import Store  # noqa: E402
from repromatrix.runner.execution.events import Terms  # noqa: E402
from repromatrix.runner.execution.run import Run, known_rows  # noqa: E402
from repromatrix.runner.model.case import Case, read_case  # noqa: E402
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source  # noqa: E402
from repromatrix.runner.model.matrix import Limits  # noqa: E402
from repromatrix.runner.model.observation import LOCAL, Failed, Observation, Provenance  # noqa: E402
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision  # noqa: E402
from repromatrix.runner.paths import Paths  # noqa: E402
from repromatrix.runner.planning.selection import SelectionRequest, select  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from repromatrix.runner.project import Project

    Row = Callable[..., None]

CASES, RELEASES = 1000, 250
TOLD = 250, 120
SHARDS = 4
WAYS = 1
"""Workarounds of a case; with two precisions that makes four cells per case and release."""
PRECISIONS = (Precision.FP32, Precision.BF16)
MARKERS = {"python_version": "3.11", "python_full_version": "3.11.7", "sys_platform": "linux"}
BLOCK = """\
requires-python = ">=3.10"
dependencies = ["torch", "transformers>=4.{first}"]
[tool.repromatrix]
title = "A toy is computed in another dtype than its weights"
reports = ["https://example.org/{number}"]
area = "toys"
models = ["toy"]
[tool.repromatrix.workarounds]
eager = "Choose eager."
[[tool.repromatrix.fails]]
when = ["transformers>=4.{breaks},<4.{heals}"]
precisions = ["bf16", "fp16"]
raises = "ValueError"
match = "it breaks"
"""


def cases(count: int) -> dict[str, Case]:
    """Return cases that break and heal somewhere, each with a workaround."""
    dice = random.Random(0)  # noqa: S311 - nothing here is a secret
    found = {}
    for number in range(count):
        breaks = dice.randrange(2, 70)
        block = BLOCK.format(
            number=number,
            first=dice.choice((0, 0, 0, 5)),
            breaks=breaks,
            heals=breaks + 1 + dice.randrange(12),
        )
        text = "".join(f"# {line}\n" for line in block.splitlines())
        name = f"toy_{number}_breaks"
        code = f'# /// script\n{text}# ///\n"""A toy must not break."""\nNUMBER = {number}\n'
        found[name] = read_case(code, f"cases/{name}.py")
    return found


def environments(count: int) -> dict[str, Environment]:
    """Return releases, three to a line."""
    return {
        name: Environment(
            name=name,
            source=Source.RELEASE,
            python="3.11",
            pins={"transformers": name, "torch": "2.13.0", "accelerate": "1.5.2"},
            markers=MARKERS,
        )
        for name in (f"4.{number // 3}.{number % 3}" for number in range(count))
    }


def checkout(count: int, releases: int) -> Project:
    """Return a made-up checkout."""
    real = project.load(Paths())
    matrix = real.matrix.model_copy(update={"precisions": PRECISIONS})
    return project.Project(
        paths=Paths(),
        matrix=matrix,
        locks={},
        environments=environments(releases),
        cases=cases(count),
    )


def rows(made: Project, share: float = 1.0) -> Iterator[Observation]:
    """Yield what was seen in some of the cells."""
    dice = random.Random(1)  # noqa: S311
    for case in made.cases.values():
        first, until = (dice.randrange(60), 60 + dice.randrange(200))
        for at, environment in enumerate(made.environments.values()):
            ran = _provenance(case, environment)
            for workaround in case.branches:
                for precision in made.matrix.precisions:
                    if share < 1 and dice.random() > share:
                        continue
                    cell = Cell(case.name, workaround, environment.name, precision, Device.CPU)
                    yield _seen(cell, ran, bad=first <= at < until and not workaround)


def _provenance(case: Case, environment: Environment) -> Provenance:
    return Provenance(
        case_digest=case.digest,
        environment_digest=environment.digest,
        packages=environment.pins,
        python="3.11.7",
        torch_build="2.13.0+cpu",
        hardware="x86_64 avx2",
        protocol=PROTOCOL,
        run="20261121T000000-000000",
    )


FAILED = Failed(
    error_class="ValueError",
    message="it breaks",
    signature="ValueError: it breaks",
    traceback='  File "site-packages/transformers/modeling_toy.py", line 7, in forward\n' * 12,
)


def _seen(cell: Cell, ran: Provenance, *, bad: bool) -> Observation:
    bad = bad and cell.precision is not Precision.FP32
    return Observation(
        cell=cell,
        outcome=Outcome.FAILS if bad else Outcome.PASSES,
        provenance=ran,
        source=LOCAL,
        failed=FAILED if bad else None,
        exercised=Exercised.EMPTY if cell.precision is Precision.FP32 else Exercised.YES,
        computed={cell.precision.dtype: 600},
        seconds=0.2,
    )


def campaign(made: Project, known: dict[Cell, Observation]) -> Run:
    """Return a run over everything."""
    return Run(
        project=made,
        selection=select(SelectionRequest(), made.cases, made.names),
        terms=Terms(limits=Limits(seconds=60, memory=4096), device=Device.CPU, jobs=2),
        known=known,
    )


def plan() -> dict[str, float]:
    """Plan a million cells of which nothing is known: all of them, and for a budget."""
    made = checkout(CASES, RELEASES)
    whole = campaign(made, {})
    found = {}
    for name, seconds in (("all", None), ("budget", 600)):
        begin, spent = time.perf_counter(), time.process_time()
        units = narrowed(whole, seconds, time.monotonic()).units()
        found[name] = time.perf_counter() - begin
        found[f"{name} spent"] = time.process_time() - spent
        found[f"{name} cells"] = sum(len(unit.cells) for unit in units)
        del units
    return found


def replan() -> dict[str, float]:
    """Plan a million cells of which a half is known."""
    made = checkout(CASES, RELEASES)
    every = list(rows(made, 0.5))
    begin, spent = time.perf_counter(), time.process_time()
    known = known_rows(every, made)
    units = campaign(made, known).units()
    return {
        "seconds": time.perf_counter() - begin,
        "own": time.process_time() - spent,
        "cells": sum(len(unit.cells) for unit in units),
        "known": len(known),
    }


def store() -> dict[str, float]:
    """Insert a million rows, a thousand at a time, and read them back."""
    made = checkout(CASES, RELEASES)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Store(Path(folder) / "evidence.sqlite", print)) as kept,
    ):
        seconds, spent, batch, count = 0.0, 0.0, [], 0
        for row in rows(made):
            batch.append(row)
            if len(batch) == 1000:
                begin, own = time.perf_counter(), time.process_time()
                kept.put(*batch)
                seconds += time.perf_counter() - begin
                spent += time.process_time() - own
                count += len(batch)
                batch = []
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        begin = time.perf_counter()
        read = sum(1 for _ in kept.rows())
        reading = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "own": spent,
        "rows": count,
        "size": size,
        "read": read,
        "reading": reading,
    }


def merge() -> dict[str, float]:
    """Merge a million rows out of four shards into an empty store."""
    made = checkout(CASES, RELEASES)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"shard-{number}.sqlite" for number in range(SHARDS)]
        for number, path in enumerate(paths):
            share = itertools.islice(rows(made), number, None, SHARDS)
            with closing(Store(path, print)) as shard:
                while some := [*itertools.islice(share, 10_000)]:
                    shard.put(*some)
        begin, own, count = time.perf_counter(), time.process_time(), 0
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as kept:
            for path in paths:
                with answers.evidence(path) as (measured, _):
                    count += kept.take(measured).new
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "own": time.process_time() - own, "rows": count}


def keep() -> dict[str, float]:
    """Store 120,000 rows in the file that the environment names."""
    made = checkout(*TOLD)
    with closing(Store(Paths().store, print)) as kept:
        kept.put(*rows(made))
    return {}


def tell() -> dict[str, float]:
    """Print all of them as `results` does, into nothing."""
    made = checkout(*TOLD)
    heard: list[str] = []
    results.say = heard.append
    results.project.load = lambda _: made
    results.answers.published_rows = lambda *_: []
    gc.disable()  # as the command does
    results.print_cells(Paths(), results.ResultsOptions(), Console(stderr=True))
    return {"cells": heard[0].count("\n") - 1}


PARTS = {"plan": plan, "replan": replan, "store": store, "merge": merge, "keep": keep, "tell": tell}


def _apart(name: str, kept: str = "") -> dict[str, float]:
    """Run a part in a process of its own; return what it found with its time and peak memory."""
    command = [sys.executable, __file__, name]
    environ = os.environ | ({"REPROMATRIX_STORE": kept} if kept else {})
    begin = time.perf_counter()
    answer = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    found = dict(json.loads(answer.stdout.splitlines()[-1]))
    return found | {"process": time.perf_counter() - begin}


def measure(row: Row) -> None:
    """Measure every part; one line per number."""
    found = _apart("plan")
    for name in ("all", "budget"):
        what = f"plan {found['all cells']:,.0f} cells: {name}"
        row(what, found[name], "s", f"wanted: under 5; {found[f'{name} spent']:.1f} core-seconds")
    row("peak memory of the three", found["peak"] / 2**20, "MiB", "wanted: under 1024")
    found = _apart("replan")
    what = f"plan where {found['known']:,.0f} are known"
    row(what, found["seconds"], "s", f"wanted: under 5; {found['own']:.1f} core-seconds")
    row("peak memory, evidence included", found["peak"] / 2**20, "MiB", "wanted: under 1024")
    found = _apart("store")
    what = f"{found['rows']:,.0f} rows stored"
    row(what, found["seconds"], "s", f"wanted: under 60; {found['own']:.1f} core-seconds")
    row("read back", found["reading"], "s", f"{found['size'] / 1e6:,.0f} MB on disk")
    row("peak memory of the store", found["peak"] / 2**20, "MiB")
    found = _apart("merge")
    what = f"{found['rows']:,.0f} rows of {SHARDS} shards merged"
    row(what, found["seconds"], "s", f"{found['own']:.1f} core-seconds")
    row("peak memory of the merge", found["peak"] / 2**20, "MiB")
    with tempfile.TemporaryDirectory() as folder:
        kept = f"{folder}/evidence.sqlite"
        _apart("keep", kept)
        found = _apart("tell", kept)
    cells = f"results of {found['cells']:,.0f} cells"
    row(cells, found["process"], "s", f"wanted: under 2; {found['spent']:.1f} core-seconds")
    row("peak memory of results", found["peak"] / 2**20, "MiB")


def main(name: str) -> None:
    """Print what one part found."""
    found = PARTS[name]()
    used = resource.getrusage(resource.RUSAGE_SELF)
    found |= {"peak": used.ru_maxrss * 1024, "spent": used.ru_utime + used.ru_stime}
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main(sys.argv[1])
