"""Time the first run of a fresh clone, and the loop of one cell in it.

The clone is of what is committed here, with warm caches of this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from checks.runs import CORES, processor
from checks.table import Table
from repromatrix.runner.paths import ROOT

CASE = "gemma3_trainer_eval"
RELEASE = "4.50.0"
_TABLE = "The table:"


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A command that ended: how long it took, and when it first named the table."""

    seconds: float
    processor: float
    table: float | None

    @property
    def note(self) -> str:
        """Say how much of the cores it used."""
        share = self.processor / (self.seconds * CORES)
        return f"{self.processor:.0f} core-seconds, {share:.0%} of {CORES} cores"


def check(table: Table, options: argparse.Namespace) -> None:
    """Measure them in a fresh clone."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / ".nox") as folder:
        clone = Path(folder) / "repromatrix"
        subprocess.run([shutil.which("git") or "git", "clone", "--quiet", ROOT, clone], check=True)
        _first(table, clone)
        _again(table, clone)
        if options.readme:
            table.row("nox, whole", (whole := _ran(clone)).seconds, "s", whole.note)


def _first(table: Table, clone: Path) -> None:
    """Run the main job from nothing."""
    done = _ran(clone, "-s", "matrix")
    if done.table is not None:
        table.row("first table", done.table, "s", "nox -s matrix in a fresh clone")
    table.row("to the end", done.seconds, "s", done.note)
    with closing(sqlite3.connect(clone / ".repromatrix" / "evidence.sqlite")) as store:
        (cells,) = store.execute("SELECT count(*) FROM cells").fetchone()
    table.row("cells measured", int(cells), "cells")
    built = len(list((clone / ".nox" / "environments").glob("*/complete.json")))
    table.row("environments built", built, "")


def _again(table: Table, clone: Path) -> None:
    """Time what is asked again and again, where the environment stands."""
    one = ("--case", CASE, "--release", RELEASE)
    _ran(clone, "-s", "matrix", "--", *one)
    for what, options in {
        "the loop of one cell": (*one, "--rerun"),
        "nothing due": one,
        "dry run": ("--dry-run",),
    }.items():
        done = _ran(clone, "-s", "matrix", "--", *options)
        table.row(what, done.seconds, "s", done.note)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        done = _ran(clone, "-s", "report", told={"REPROMATRIX_SITE": str(site)})
        sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    table.row("report, from nothing", done.seconds, "s", done.note)
    table.row("… its files", len(sizes), "files", f"{sum(sizes) / 1e6:.1f} MB")


def _ran(clone: Path, *options: str, told: Mapping[str, str] | None = None) -> Timed:
    """Run nox in a clone to its end; raises SystemExit where it could not."""
    # As a user's: nothing of ours is moved, and bytecode is kept.
    ours = ("REPROMATRIX_", "PYTHON")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    begin, used = time.perf_counter(), processor()
    named, said = None, ""
    with subprocess.Popen(
        [sys.executable, "-m", "nox", *options],
        cwd=clone,
        env=environ | dict(told or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for said in process.stdout or ():
            if named is None and _TABLE in said:
                named = time.perf_counter() - begin
    if process.returncode not in {0, 1}:
        msg = f"nox {' '.join(options)}: {said}"
        raise SystemExit(msg)
    seconds = time.perf_counter() - begin
    return Timed(seconds=seconds, processor=processor() - used, table=named)
