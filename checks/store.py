"""Damage a store, lock it, give it a future format, or take memory or locks from its file system.

No stored row may be lost, and each error must name the store.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.table import Table
from repromatrix.runner.paths import ROOT

SEED, DAMAGES = 7, 100
ROWS = 200
_PAGE = 4096
_NAME = "evidence.sqlite"
_SOURCE = Path(__file__).with_name("unfit_disk.c")
_SOON, _PATIENT = 0.5, 60.0
"""Seconds for which a lock is awaited: where it never comes, and where it must come."""
# As the program does it: its errors, its codes, its words.
_USE = """
import contextlib, sys
from pathlib import Path
from factories import cell, seen
from repromatrix.runner import errors
from repromatrix.runner.evidence import database
from repromatrix.runner.evidence.store import Store

database.WAIT = float(sys.argv[4])
path, begin, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
try:
    with contextlib.closing(Store(path, lambda text: print("said:", text))) as store:
        for number in range(begin, end):
            store.put(seen(at=cell(name=f"toy_{number}")))
        print("rows:", len(list(store.rows())))
except errors.RunnerError as error:
    print("told:", error)
    sys.exit(int(error.code))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """What a process said that used a store."""

    code: int
    said: str

    @property
    def addressed(self) -> bool:
        """Say whether it went well, or ended with the name of the store and what is wrong."""
        if self.code == 0:
            return True
        return self.code == 2 and f"told: {_NAME}: " in self.said

    @property
    def rows(self) -> int:
        return int(self.said.rpartition("rows: ")[2] or -1) if self.code == 0 else -1


def check(table: Table, options: argparse.Namespace) -> None:
    """Try every way in which a store can be unfit, and count what was lost or not addressed."""
    damages, seed = options.count or DAMAGES, options.seed or SEED
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shim = compiled(folder)
        wrong = [one for number in range(damages) for one in damaged(folder, number, seed)]
        _count(table, f"damaged stores, seed {seed}", damages, wrong)
        wrong = [*held(folder), *future(folder)]
        _count(table, "stores held by another program or from the future", 2, wrong)
        _count(table, "stores without shared memory or locks", *unfit(folder, shim))


def _count(table: Table, what: str, times: int, wrong: Sequence[str]) -> None:
    note = "" if times else "there is no C compiler here"
    table.count(what, times, "rows lost or unaddressed errors", len(wrong), note)
    for one in wrong:
        print(f"  {one}", flush=True)


def use(path: Path, begin: int, end: int, patience: float = _PATIENT) -> Used:
    """Store rows as a process of its own, and read all that are there."""
    done = _start(path, begin, end, patience)
    out, _ = done.communicate(timeout=600)
    return Used(code=done.returncode, said=out)


def _start(
    path: Path, begin: int, end: int, patience: float, **lacking: str
) -> subprocess.Popen[str]:
    support = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    return subprocess.Popen(
        [sys.executable, "-c", _USE, str(path), str(begin), str(end), str(patience)],
        env={**os.environ, "PYTHONPATH": support, **lacking},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _new(folder: Path, name: str) -> Path:
    place = folder / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place / _NAME


def _whole(folder: Path) -> Path:
    """Return a store with rows, written once."""
    path = folder / "whole" / _NAME
    if not path.exists():
        path.parent.mkdir()
        assert use(path, 0, ROWS).rows == ROWS
    return path


def damaged(folder: Path, number: int, seed: int = SEED) -> list[str]:
    """Damage a store, use it, and return what is wrong with what became of it."""
    path = _new(folder, "damaged")
    content = bytearray(_whole(folder).read_bytes())
    what = _damage(content, number, random.Random(seed * 1000 + number))
    path.write_bytes(content)
    used = use(path, ROWS, ROWS + 1)
    kept = path.with_name(f"{_NAME}.kept-1")
    wrong = [] if used.addressed else [f"not addressed: {used.said[-500:]}"]
    if kept.exists() and kept.read_bytes() != content:
        wrong.append("what was kept aside is not what was there")
    # Either all is read, or the file as it was lies beside the new one, or it was refused.
    if used.code == 0 and used.rows != ROWS + 1 and not (kept.exists() and _NAME in used.said):
        wrong.append(f"{ROWS + 1 - used.rows} rows are gone without a word")
    return [f"{what}: {one}" for one in wrong]


def _damage(content: bytearray, number: int, drawn: random.Random) -> str:
    """Damage a store in one of four ways, and say how."""
    place = drawn.randrange(1, len(content))
    page = slice(place - place % _PAGE, place - place % _PAGE + _PAGE)
    match number % 4:
        case 0:
            content[page] = drawn.randbytes(_PAGE)
            return f"the page of byte {place} is noise"
        case 1:
            content[page] = bytes(_PAGE)
            return f"the page of byte {place} is zeros"
        case 2:
            content[place] ^= 1 << drawn.randrange(8)
            return f"byte {place} changed"
        case _:
            del content[place:]
            return f"cut off at {place}"


def held(folder: Path) -> list[str]:
    """Use a store that another program holds for longer than we wait, and again once it is free."""
    path = _new(folder, "held")
    shutil.copyfile(_whole(folder), path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        used = use(path, ROWS, ROWS + 1, patience=_SOON)
    wrong = [] if used.code == 2 and "has kept the store locked" in used.said else [used.said]
    after = use(path, ROWS, ROWS + 1)
    return [*wrong, *([] if after.rows == ROWS + 1 else [after.said])]


def future(folder: Path) -> list[str]:
    """Use a store of a format that is to come: it is kept as it is, and a new one is begun."""
    path = _new(folder, "future")
    shutil.copyfile(_whole(folder), path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    used = use(path, 0, 1)
    kept = path.with_name(f"{_NAME}.kept-1")
    good = used.rows == 1 and "newer version" in used.said
    good = good and kept.exists() and kept.read_bytes() == before
    return [] if good else [f"from the future: {used.said}"]


def unfit(folder: Path, shim: Path | None) -> tuple[int, list[str]]:
    """Use stores, new ones and old ones, alone and two at once, where something cannot be had."""
    if shim is None:
        return 0, []
    wrong: list[str] = []
    for name, old in (("new", 0), ("old", ROWS)):
        for lacking in ("memory", "locks"):
            path = _new(folder, f"{name}-{lacking}")
            if old:
                shutil.copyfile(_whole(folder), path)
            wrong += _unfit(path, old, shim, lacking)
    return 4, wrong


def _unfit(path: Path, old: int, shim: Path, lacking: str) -> list[str]:
    patience = _SOON if lacking == "locks" else _PATIENT
    told = {"LD_PRELOAD": str(shim), "UNFIT": lacking, "UNFIT_NAME": str(path.parent)}
    at_once = [_start(path, old + begin, old + begin + 20, patience, **told) for begin in (0, 10)]
    used = []
    for one in at_once:
        out, _ = one.communicate(timeout=600)
        used.append(Used(code=one.returncode, said=out))
    wrong = [one.said[-500:] for one in used if not one.addressed]
    if lacking == "locks":
        wrong += [f"not refused: {one.said}" for one in used if "cannot lock files" not in one.said]
        wanted = old
    else:
        wrong += [f"it did not go on: {one.said}" for one in used if one.code]
        wanted = old + 30
    if path.with_name(f"{_NAME}.kept-1").exists():
        wrong.append("it was taken for damaged")
    # On a file system that has everything all is there; nothing may be left beside it.
    after = use(path, 0, 0)
    if after.rows != wanted:
        wrong.append(f"{wanted} rows belong there: {after.said}")
    left = sorted(one.name for one in path.parent.iterdir())
    wrong += [] if left == [_NAME] else [f"left: {left}"]
    return [f"{path.parent.name}: {one}" for one in wrong]


def compiled(folder: Path) -> Path | None:
    """Return a library that makes SQLite see another file system; nothing without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "unfit_disk.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library
