"""Time a sweep: a release, its further classes, a patch release, and an estimate of all of them.

An eighth of the architectures of the newest release runs and is multiplied by eight, including
what a run takes only once.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile

from checks import runs
from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.published import read_history
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.sweep.measure import releases_of

SHARE = 8
_FP16 = tuple(f"--probe={probe.name}" for probe in PROBES if probe.dtype == "fp16")


def check(table: Table, _options: argparse.Namespace) -> None:
    """Measure each."""
    line = read_history(Paths().published)
    newest = releases_of(project.load(Paths()))[-1]
    whole = _minutes(newest)
    table.row(f"{newest}, core-minutes", whole, "min", "fp32, bf16, autocast; wanted: under 25")
    fp16 = _minutes(newest, *_FP16)
    table.row("… its probes in fp16", fp16, "min", "feature releases, and patches that differ")
    classes = _minutes(newest, "--classes")
    table.row("… its further classes, the cheapest probes", classes, "min", "wanted: under 15")
    shares = {name: _share(line, name) for name in line.releases}
    between = [share for name, share in shares.items() if name not in line.whole]
    patch = statistics.median(between) * (whole + fp16)
    told = f"{100 * statistics.median(between):.0f}% of the architectures; wanted: under 8"
    table.row("a patch release, median", patch, "min", told)
    hours = sum(shares.values()) * (whole + fp16) / 60
    told = f"{len(line.whole)} whole, {len(between)} where neighbours differ; wanted: under 12"
    table.row("all releases, core-hours", hours, "h", told)


def _share(line: SweepHistory, name: str) -> float:
    """Return how many architectures were run on a release, in those that are run on the newest."""
    ran = sum(name in line.measured(kind) for kind in line.architectures)
    return ran / len(line.architectures)


def _minutes(release: str, *options: str) -> float:
    """Return the core-minutes of a release that is held against itself, from an empty store."""
    sides = ["--release", release, "--against", release, "--shard", f"1/{SHARE}"]
    command = [sys.executable, "-m", "repromatrix", "sweep", *sides, *options]
    with tempfile.TemporaryDirectory() as folder:
        before = runs.processor()
        environ = runs.environ(folder)
        subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True)
        return (runs.processor() - before) * SHARE / 60
