"""What a new user waits for: the commands of the README in a fresh clone, and the loop of one cell.

The clone is of what is committed here; its caches are this machine's, and warm.
"""

from __future__ import annotations

import os
import resource
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
from typing import TYPE_CHECKING

from shared import CORES

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from shared import Row

CASE = "gemma3_trainer_eval"
RELEASE = "4.50.0"
_TABLE = "The table:"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A command that ended: how long it took, and when it first named the table."""

    seconds: float
    processor: float
    table: float | None

    @property
    def note(self) -> str:
        """Say how much of the cores it used."""
        share = self.processor / (self.seconds * CORES)
        return f"{self.processor:.0f} core-seconds, {share:.0%} of {CORES} cores"


def measure(row: Row, *, readme: bool = False) -> None:
    """Measure them in a fresh clone; `row` prints one number."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / ".nox") as folder:
        clone = Path(folder) / "repromatrix"
        subprocess.run([shutil.which("git") or "git", "clone", "--quiet", ROOT, clone], check=True)
        _first(row, clone)
        _again(row, clone)
        if readme:
            row("nox, whole", (whole := ran(clone)).seconds, "s", whole.note)


def _first(row: Row, clone: Path) -> None:
    """Run the main job from nothing."""
    done = ran(clone, "-s", "matrix")
    if done.table is not None:
        row("first table", done.table, "s", "nox -s matrix in a fresh clone")
    row("to the end", done.seconds, "s", done.note)
    row("cells measured", measured(clone), "cells")
    built = len(list((clone / ".nox" / "environments").glob("*/complete.json")))
    row("environments built", built, "")


def _again(row: Row, clone: Path) -> None:
    """Time what is asked again and again, where the environment stands."""
    one = ("--case", CASE, "--release", RELEASE)
    ran(clone, "-s", "matrix", "--", *one)
    for what, options in {
        "the loop of one cell": (*one, "--rerun"),
        "nothing due": one,
        "dry run": ("--dry-run",),
    }.items():
        row(what, (done := ran(clone, "-s", "matrix", "--", *options)).seconds, "s", done.note)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        done = ran(clone, "-s", "report", told={"REPROMATRIX_SITE": str(site)})
        sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    row("report, from nothing", done.seconds, "s", done.note)
    row("… its files", len(sizes), "files", f"{sum(sizes) / 1e6:.1f} MB")


def ran(clone: Path, *options: str, told: Mapping[str, str] | None = None) -> Ran:
    """Run nox in a clone to its end; raises SystemExit where it could not."""
    begin, used = time.perf_counter(), _processor()
    table, said = None, ""
    with subprocess.Popen(
        [sys.executable, "-m", "nox", *options],
        cwd=clone,
        env=_environ() | dict(told or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for said in process.stdout or ():
            if table is None and _TABLE in said:
                table = time.perf_counter() - begin
    if process.returncode not in {0, 1}:
        msg = f"nox {' '.join(options)}: {said}"
        raise SystemExit(msg)
    seconds = time.perf_counter() - begin
    return Ran(seconds=seconds, processor=_processor() - used, table=table)


def _environ() -> dict[str, str]:
    """Return our environment as a user's: nothing of ours is moved, and bytecode is kept."""
    ours = ("REPROMATRIX_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(clone: Path) -> int:
    """Return how many cells a clone has measured itself."""
    with closing(sqlite3.connect(clone / ".repromatrix" / "evidence.sqlite")) as store:
        return int(store.execute("SELECT count(*) FROM cells").fetchone()[0])
