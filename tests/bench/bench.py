"""`nox -s bench`: the runner beside a plain loop and the floor, on the same slice, in one run.

Everything is warm: environments built, bytecode compiled, each way run once on one cell per
environment before it is timed. Machines are shared and noisy, so what counts are the ratios.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

import answers  # noqa: E402
import searches  # noqa: E402
import synthetic  # noqa: E402

from runner import project  # noqa: E402
from runner.engine.events import Terms  # noqa: E402
from runner.engine.surroundings import surroundings  # noqa: E402
from runner.engine.zygote import Start, Zygote  # noqa: E402
from runner.environments import building  # noqa: E402
from runner.evidence.store import Store  # noqa: E402
from runner.inside import cage  # noqa: E402
from runner.model.cell import cells_of  # noqa: E402
from runner.model.outcomes import Device  # noqa: E402
from runner.places import Places  # noqa: E402
from runner.planning.imports import wanted  # noqa: E402
from runner.planning.plan import applicable  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.environments.building import Built
    from runner.model.cell import Cell
    from runner.project import Project

SLICE = ("4.49.0", "4.50.0", "4.51.0", "5.23.0")
# The plain loop takes seconds per cell: the whole corpus would take it hours.
CASES = (
    "blip2_load_half",
    "gemma3_fp16_overflow",
    "gemma3_lora_save",
    "gemma3_trainer_eval",
    "paligemma2_trainer_eval",
    "qwen2_5_vl_flash_rotary",
)
CORES = len(os.sched_getaffinity(0))


def main() -> None:
    """Measure, print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--release", default=",".join(SLICE), help="a comma list")
    arguments.add_argument("--no-plain", action="store_true", help="leave the slow plain loop out")
    arguments.add_argument("--searches", action="store_true", help="the searches alone")
    arguments.add_argument("--answers", action="store_true", help="the answers alone")
    arguments.add_argument("--site", action="store_true", help="the site alone")
    chosen = arguments.parse_args()
    alone = {searches: chosen.searches, answers: chosen.answers, synthetic: chosen.site}
    for part in (part for part, chose in alone.items() if chose):
        part.measure(_row)
    if any(alone.values()):
        return
    corpus = project.load(Places())
    loaded = dataclasses.replace(corpus, cases={name: corpus.cases[name] for name in CASES})
    slice_ = {name: _prepared(loaded, name) for name in chosen.release.split(",")}
    total = sum(len(cells) for _, cells in slice_.values())
    print(f"{len(slice_)} releases, {len(CASES)} cases, {total} cells, {CORES} cores")
    first = _matrix(tuple(slice_))
    plain = 0.0 if chosen.no_plain else sum(_plain(loaded, *one) for one in slice_.values())
    second = _matrix(tuple(slice_))
    runner = statistics.median((first["seconds"], second["seconds"]))
    imports, fork = _floor(loaded, slice_)
    own = statistics.median((first["own"], second["own"]))
    floor = (sum(imports) + total * fork + own) / CORES
    _row("runner, whole slice", runner, "s", f"{first['seconds']:.1f} and {second['seconds']:.1f}")
    if plain:
        _row("plain loop, whole slice", plain, "s")
        _row("plain loop / runner", plain / runner, "times", "wanted: at least 8")
    _row(
        "floor, whole slice",
        floor,
        "s",
        f"({sum(imports):.1f} + {total * fork:.1f} + {own:.1f}) / {CORES}: imports, forks, cells",
    )
    _row("runner / floor", runner / floor, "times", "wanted: at most 1.3")
    _row("one import, median", statistics.median(imports), "s")
    _row("one empty fork", fork * 1000, "ms")
    _row(
        "overhead per forked cell", _overhead(loaded, slice_, fork) * 1000, "ms", "wanted: under 20"
    )
    peaks = _peaks(max(slice_))
    _row("runner's peak memory", peaks["memory"] / 2**20, "MiB", "wanted: under 300")
    _row("a zygote and its child, peak", peaks["zygote"] / 2**20, "MiB", "wanted: under 1536")
    _corpus(max(slice_), len(corpus.cases))
    _again()
    searches.measure(_row)
    answers.measure(_row)


def _corpus(release: str, cases: int) -> None:
    """Measure the whole corpus on one release: what it costs, and what reading it costs."""
    command = [sys.executable, "-m", "runner", "matrix", "--release", release]
    with tempfile.TemporaryDirectory() as folder:
        before = _spent()
        subprocess.run(command, env=_environ(folder), cwd=ROOT, capture_output=True, check=False)
        spent = _spent() - before
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as store:
            seconds = [row.seconds for row in store.rows() if row.seconds is not None]
    print(f"the whole corpus on {release}: {cases} cases, {len(seconds)} cells")
    _row("all of it, core-seconds", spent, "s", "wanted: under 25")
    _row("median forked cell", statistics.median(seconds), "s", "wanted: under 0.25")
    _row("slowest forked cell", max(seconds), "s", "wanted: under 2")
    check = [sys.executable, "-m", "runner", "check"]
    checked = statistics.median(_timed(check) for _ in range(3))
    _row("check", checked, "s", "wanted: under 1.5")
    with tempfile.TemporaryDirectory() as folder:
        report = [sys.executable, "-m", "runner", "report"]
        drawn = _timed(report, _environ(folder))
        page = Path(folder) / "site" / "index.html"
        _row("report, every page", drawn, "s", "wanted: under 3")
        _row("first page", page.stat().st_size / 1e6, "MB", "wanted: under 2")
    texts = [path for path in Places().published.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in texts)
    _row("published evidence", size / 1e6, "MB", "wanted: under 3")


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(what: str, number: float, unit: str, note: str = "") -> None:
    print(f"{what:<34}{number:>10.2f} {unit:<6} {note}", flush=True)


def _prepared(loaded: Project, name: str) -> tuple[Built, tuple[Cell, ...]]:
    environment = loaded.environments[name]
    every = [
        cell
        for case in loaded.cases.values()
        for cell in cells_of(case, name, loaded.matrix.precisions, Device.CPU)
    ]
    return building.build(loaded.places, project.recipe(loaded, name)), applicable(
        every, loaded.cases, environment
    )


def _environ(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "REPROMATRIX_STORE": f"{folder}/evidence.sqlite",
        "REPROMATRIX_SITE": f"{folder}/site",
    }


def _matrix(releases: Sequence[str]) -> dict[str, float]:
    """Run the slice with an empty store; one cell per environment warms it up first."""
    command = [sys.executable, "-m", "runner", "matrix", "--release", ",".join(releases)]
    command += ["--case", ",".join(CASES)]
    with tempfile.TemporaryDirectory() as folder:
        warm = [*command, "--case", "gemma3_fp16_overflow", "--precision", "fp32"]
        subprocess.run(warm, env=_environ(folder), cwd=ROOT, capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        subprocess.run(command, env=_environ(folder), cwd=ROOT, capture_output=True, check=True)
        seconds = time.perf_counter() - begin
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as store:
            own = sum(row.seconds or 0 for row in store.rows())
    return {"seconds": seconds, "own": own}


def _peaks(release: str) -> dict[str, float]:
    """Measure memory in a run of its own: looking costs time."""
    command = [sys.executable, "-m", "runner", "matrix", "--release", release]
    with tempfile.TemporaryDirectory() as folder:
        return _watched(command, _environ(folder))


def _watched(command: Sequence[str], environ: dict[str, str]) -> dict[str, float]:
    """Run a command; sample its memory and that of its zygotes with their children (Pss)."""
    peaks = {"memory": 0.0, "zygote": 0.0}
    with subprocess.Popen(
        command, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            peaks["memory"] = max(peaks["memory"], cage.resident(process.pid))
            for zygote in cage.children(process.pid):
                tree = [zygote, *cage.descendants(zygote)]
                peaks["zygote"] = max(peaks["zygote"], sum(map(_proportional, tree)))
            time.sleep(0.2)
    if process.returncode:
        msg = f"{' '.join(command)} ended with {process.returncode}"
        raise SystemExit(msg)
    return peaks


def _proportional(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0
    )


def _plain(loaded: Project, built: Built, cells: Sequence[Cell]) -> float:
    """Time the plain loop on one release, warmed once."""
    commands = [
        [str(built.python), loaded.cases[cell.case].path, cell.precision, cell.workaround]
        for cell in cells
    ]
    commands = [command if command[-1] else command[:-1] for command in commands]
    loop = [sys.executable, HERE / "plain_loop.py"]
    for some in (commands[:2], commands):
        begin = time.perf_counter()
        subprocess.run(loop, input=json.dumps(some), text=True, check=True, capture_output=True)
    return time.perf_counter() - begin


def _floor(loaded: Project, slice_: dict[str, Any]) -> tuple[list[float], float]:
    """Return one import per environment and the median empty fork, in seconds."""
    found = []
    for built, _ in slice_.values():
        with tempfile.TemporaryDirectory() as folder:
            answer = subprocess.run(
                [built.python, HERE / "floor.py", json.dumps(wanted(loaded.cases.values()))],
                env=surroundings(Path(folder), Device.CPU, 1) | {"HOME": folder},
                capture_output=True,
                text=True,
                check=True,
            )
        found.append(json.loads(answer.stdout))
    return [one["import"] for one in found], statistics.median(one["fork"] for one in found)


def _overhead(loaded: Project, slice_: dict[str, Any], fork: float) -> float:
    """Return the median time of a cell beside the empty fork and what its own code took."""
    built, cells = slice_[max(slice_)]
    preload = wanted(loaded.cases.values())
    start = Start(built=built, device=Device.CPU, preload=preload, fork=True, slots=1, threads=1)
    limits = Terms(run="", limits=loaded.matrix.limits, device=Device.CPU, jobs=1).limits
    zygote = Zygote(start)
    beside = []
    try:
        for number, cell in enumerate(cells):
            request = {
                "id": number,
                "case": loaded.cases[cell.case].path,
                "precision": cell.precision,
                "workaround": cell.workaround,
                "device": "cpu",
                "exercises": "compute",
                "fresh": False,
                "witness": True,
                "seconds": limits.seconds,
                "memory": limits.memory,
                "threads": 1,
                "front": None,
            }
            begin = time.perf_counter()
            ((_, answer),) = zygote.run([request])
            beside.append(time.perf_counter() - begin - answer["seconds"] - fork)
    finally:
        zygote.close()
    return statistics.median(beside)


def _again() -> None:
    """Time the main job where nothing has changed, through the door and without it."""
    through = [sys.executable, "-m", "nox", "-s", "matrix"]
    own = [sys.executable, "-m", "runner", "matrix"]
    plan = subprocess.run([*own, "--plan"], cwd=ROOT, capture_output=True, text=True, check=True)
    print(f"nothing changed: {plan.stderr.strip().splitlines()[-1]}")
    for what, command, wish in (
        ("again, through nox", through, 3),
        ("again, the runner's own", own, 1),
    ):
        _row(
            what, statistics.median(_timed(command) for _ in range(3)), "s", f"wanted: under {wish}"
        )


def _timed(command: Sequence[str], environ: dict[str, str] | None = None) -> float:
    begin = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
