"""What the runner itself takes: memory, one release, reading, drawing, and a run without work."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import shared

from repromatrix.runner.evidence.store import Store
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared import Row

RELEASE = "5.23.0"
OWN = [sys.executable, "-m", "repromatrix"]


def measure(row: Row) -> None:
    """Measure each; `row` prints one number."""
    peaks = _peaks(RELEASE)
    row("runner's peak memory", peaks["memory"] / 2**20, "MiB", "wanted: under 300")
    row("a worker and its child, peak", peaks["worker"] / 2**20, "MiB", "wanted: under 1536")
    _release(row, RELEASE)
    with tempfile.TemporaryDirectory() as folder:
        checking = shared.timed([*OWN, "check"], shared.environ(folder))
        row("check", checking, "s", "wanted: under 1.5")
        begin = time.perf_counter()
        command = [*OWN, "report"]
        subprocess.run(
            command, cwd=ROOT, env=shared.environ(folder), capture_output=True, check=True
        )
        row("report, every page", time.perf_counter() - begin, "s", "wanted: under 3")
        page = Path(folder) / "site" / "index.html"
        row("first page", page.stat().st_size / 1e6, "MB", "wanted: under 2")
    texts = [path for path in Paths().published.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in texts)
    row("published evidence", size / 1e6, "MB", "wanted: under 3")
    _again(row)


def _release(row: Row, release: str) -> None:
    """Measure the whole corpus on one release."""
    command = [*OWN, "matrix", "--release", release]
    with tempfile.TemporaryDirectory() as folder:
        before = _spent()
        subprocess.run(
            command, env=shared.environ(folder), cwd=ROOT, capture_output=True, check=False
        )
        spent = _spent() - before
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as store:
            seconds = [one.seconds for one in store.rows() if one.seconds is not None]
    row(f"the whole corpus on {release}, core-seconds", spent, "s", f"{len(seconds)} cells")
    row("median forked cell", statistics.median(seconds), "s", "wanted: under 0.25")
    row("slowest forked cell", max(seconds), "s", "wanted: under 2")


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peaks(release: str) -> dict[str, float]:
    """Measure memory in a run of its own: looking costs time."""
    command = [*OWN, "matrix", "--release", release]
    with tempfile.TemporaryDirectory() as folder:
        return _watched(command, shared.environ(folder))


def _watched(command: Sequence[str], environ: dict[str, str]) -> dict[str, float]:
    """Run a command; sample its memory and that of its workers with their children (Pss)."""
    peaks = {"memory": 0.0, "worker": 0.0}
    with subprocess.Popen(
        command, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            peaks["memory"] = max(peaks["memory"], process_control.resident(process.pid))
            for worker in process_control.children(process.pid):
                tree = [worker, *process_control.descendants(worker)]
                peaks["worker"] = max(peaks["worker"], sum(map(_proportional, tree)))
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


def _again(row: Row) -> None:
    """Time the main job where nothing has changed, through the door and without it."""
    plan = subprocess.run(
        [*OWN, "matrix", "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said = plan.stderr.strip().splitlines()[-1]
    through = [sys.executable, "-m", "nox", "-s", "matrix"]
    row("again, through nox", shared.timed(through), "s", f"wanted: under 3; {said}")
    row("again, the runner's own", shared.timed([*OWN, "matrix"]), "s", "wanted: under 1")
