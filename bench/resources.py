"""What the runner itself takes: memory, one release, reading, drawing, and a run without work."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import shared

from repromatrix.runner import project
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.judging.lint import code_lines
from repromatrix.runner.model.case import Trigger, stem_of
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.worker import process_control
from repromatrix.sweep.measure import releases_of

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
    _published(row)
    _cases(row)
    _again(row)


def _published(row: Row) -> None:
    """Measure what is published: its size, and the share of cells that are unstable."""
    texts = [path for path in Paths().published.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in texts)
    row("published evidence", size / 1e6, "MB", "with the findings of the sweep")
    swept = Paths().published / "sweep"
    own = sum(path.stat().st_size for path in texts if not path.is_relative_to(swept))
    row("… of the cases, also under other torches", own / 1e6, "MB", "wanted: under 8")
    ran = [seen for seen in answers.published_rows(Paths()) if seen.outcome.was_run]
    share = 100 * sum(seen.unstable for seen in ran) / len(ran)
    row("unstable cells", share, "%", f"wanted: under 1; of {len(ran):,}")


def _cases(row: Row) -> None:
    """Count the lines of code of the cases."""
    cases = {case.stem: case for case in project.load(Paths()).cases.values()}
    lines = sorted(code_lines(case) for case in cases.values())
    row(
        "lines of a case, median",
        statistics.median(lines),
        "",
        f"{lines[0]} to {lines[-1]}; wanted: 25 to 60",
    )


def _release(row: Row, release: str) -> None:
    """Measure the whole corpus on one release: what takes several processes, or compiles, apart."""
    cases = {case.stem: case for case in project.load(Paths()).cases.values()}
    is_apart = {
        name: case.block.processes > 1 or Trigger.COMPILE in case.block.triggers
        for name, case in cases.items()
    }
    for apart in (False, True):
        _some(row, release, [name for name in cases if is_apart[name] is apart], apart=apart)


def _some(row: Row, release: str, names: Sequence[str], *, apart: bool) -> None:
    """Measure some cases on one release."""
    command = [*OWN, "matrix", "--release", release, "--case", ",".join(names)]
    with tempfile.TemporaryDirectory() as folder:
        before = shared.spent()
        subprocess.run(
            command, env=shared.environ(folder), cwd=ROOT, capture_output=True, check=False
        )
        spent = shared.spent() - before
        with closing(Store(Path(folder) / "evidence.sqlite", print)) as store:
            rows = [one for one in store.rows() if one.seconds is not None]
    seconds = [one.seconds for one in rows if one.seconds is not None]
    ran = len({stem_of(one.cell.case) for one in rows})
    if apart:
        told = f"{ran} cases that start processes, or compile; {len(seconds)} cells"
        row(f"these on {release}, core-seconds", spent, "s", told)
        return
    row(f"the corpus on {release}, core-seconds", spent, "s", f"{ran} cases, {len(seconds)} cells")
    row("… of 150 cases", spent * 150 / ran, "s", "wanted: under 200")
    row("median forked cell", statistics.median(seconds), "s", "wanted: under 0.25")
    row("slowest forked cell", max(seconds), "s", "wanted: under 2")


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
    """Time the main job where nothing has changed, through the door and without it.

    What is published stands in for what a run of all releases leaves in its store; `main` is left
    out, as it can only be measured where a clone of it is at hand.
    """
    options = ["--release", ",".join(releases_of(project.load(Paths())))]
    own = [*OWN, "matrix", *options]
    through = [sys.executable, "-m", "nox", "-s", "matrix", "--", *options]
    merge = [*OWN, "merge", str(Paths().published)]
    with tempfile.TemporaryDirectory() as folder:
        environ = shared.environ(folder)
        for command in (merge, own):
            subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True)
        plan = subprocess.run(
            [*own, "--dry-run"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
        )
        said = plan.stderr.strip().splitlines()[-1]
        row("again, through nox", shared.timed(through, environ), "s", f"wanted: under 3; {said}")
        row("again, the runner's own", shared.timed(own, environ), "s", "wanted: under 1")
