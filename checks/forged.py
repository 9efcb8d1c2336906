"""Forge a hundredth of the published rows in a clone, and let `matrix` check them."""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from checks.table import Table
from repromatrix.runner import files, project
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence import published
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import LOCAL, Failed, Observation
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome
from repromatrix.runner.paths import ROOT, Paths

SEED, BUDGET, SHARE = 7, "90s", 0.01
FORGED = Failed(error_class="KeyError", message="'forged'", signature="KeyError: 'forged'")


def check(table: Table, options: argparse.Namespace) -> None:
    """Count the forged cells that it measures, and those that it does not say to contradict."""
    seed = options.seed or SEED
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "checkout"
        git = shutil.which("git") or "git"
        subprocess.run([git, "clone", "--quiet", ROOT, clone], check=True)
        paths = Paths(root=clone)
        forged = _forge(paths, seed)
        code, text = _confirm(clone, seed)
        with closing(Store(paths.store, print)) as store:
            met = forged & {row.cell for row in store.rows() if row.source == LOCAL}
    said = re.search(r"([\d,]+) contradicts?\.", text)
    named = int(said[1].replace(",", "")) if said else 0
    table.count("forged cells measured", len(met), "not said to contradict", len(met) - named)
    table.count("runs that met one", 1, "not ended with 1", code != ExitCode.UNEXPECTED)


def _forge(paths: Paths, seed: int) -> frozenset[Cell]:
    """Change a hundredth of the rows of the CPU, and return their cells."""
    rows = list(published.read(paths.published))
    every = [row.cell for row in rows if row.cell.device is Device.CPU]
    rng = random.Random(seed)
    forged = frozenset(rng.sample(every, int(SHARE * len(every))))
    changed = [_changed(row) if row.cell in forged else row for row in rows]
    publications = [*published.read_publications(paths.published).values()]
    names = project.load(paths).names
    files.write_all(published.write(paths.published, changed, publications, names))
    return forged


def _changed(row: Observation) -> Observation:
    """Return what denies a row: a failure where it passes, else a pass."""
    if row.outcome is Outcome.PASSES:
        return dataclasses.replace(row, outcome=Outcome.FAILS, failed=FORGED)
    passes = dataclasses.replace(row, outcome=Outcome.PASSES, failed=None, reason="")
    return dataclasses.replace(passes, exercised=Exercised.YES)


def _confirm(clone: Path, seed: int) -> tuple[int, str]:
    """Run what confirms the published results, in the environments of this checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "repromatrix", "matrix", "--seed", str(seed), "--budget", BUDGET],
        cwd=clone,
        env={**os.environ, "REPROMATRIX_ENVIRONMENTS": str(Paths().built)},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[-3000:])
    return done.returncode, done.stderr
