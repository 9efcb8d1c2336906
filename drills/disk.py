"""A disk that is full while an environment is built, cells run, evidence is published or drawn."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drills.checkout import Checkout, expected, made, made_wheels
from drills.small_disk import SmallDisk, missing, namespace
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drills.tally import Tally
    from repromatrix.runner.subprocesses import Finished

CASES = 4
EATER = "toy_eater"
_EATS = """import os

import transformers

with open("eaten", "wb") as file:
    file.write(os.urandom(1 << 20))
assert os.path.getsize("eaten") == 1 << 20
"""
ROOMS = {
    "environments": (0, 40, 90, 200),
    "cache": (0, 40, 90, 140),
    "store": (0, 4, 24, 36, 60, 80, 100),
    "evidence": (0, 4, 32),
    "scratch": (200, 400, 700, 900),
    "pages": (0, 100, 300, 500),
    "published": (0, 8, 24, 40),
}
"""The steps, and the KiB that are left for each."""
_CODES = {0, 1, 2, 4}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What a full disk did to a step, and what was there once it had room again."""

    what: str
    lost: int
    """Cells that were there before and not afterwards, or that the next run did not get."""
    untrue: int
    """Cells whose stored outcome is not theirs."""
    torn: int
    """Published files, pages and drafts that are neither the old one nor the new one."""
    unsaid: int
    """Ends that are no code of ours, or without a word about the disk."""


def drill(tally: Tally) -> None:
    """Try every step with every room."""
    count(tally, tried([(step, room) for step, rooms in ROOMS.items() for room in rooms]))


def count(tally: Tally, fates: Sequence[Fate]) -> None:
    """Count what went wrong; where no small disk can be had, nothing was tried."""
    number, note = len(fates), missing()
    tally.count("full disks", number, "cells lost", sum(one.lost for one in fates), note)
    untrue = sum(one.untrue for one in fates)
    tally.count("full disks", number, "outcomes that are not the case's", untrue)
    torn = sum(one.torn for one in fates)
    tally.count("full disks", number, "half-written published files or pages", torn)
    unsaid = sum(one.unsaid for one in fates)
    tally.count("full disks", number, "ends without a reason", unsaid)


def tried(trials: Sequence[tuple[str, int]]) -> list[Fate]:
    """Try steps, each with so many KiB left, in a mount namespace; nothing where none is had."""
    if missing():
        return []
    program = [sys.executable, "-m", "drills.disk", json.dumps(trials)]
    done = subprocess.run(
        [*namespace(), *program], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    fates = [Fate(**one) for one in json.loads(done.stdout)]
    for one in fates:
        if one.lost or one.untrue or one.torn or one.unsaid:
            print(one, flush=True)
    return fates


def main() -> None:
    """Try what is asked for in JSON, and answer so."""
    folder = Path(tempfile.mkdtemp(prefix="drill-disk-"))
    try:
        wheels = made_wheels(folder / "wheels", ballast=65536)
        fates = []
        for number, (step, room) in enumerate(json.loads(sys.argv[1])):
            fates.append(_fate(folder / str(number), wheels, step, room))
            shutil.rmtree(folder / str(number))
        print(json.dumps([asdict(one) for one in fates]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fate(root: Path, wheels: Path, step: str, room: int) -> Fate:
    more = {EATER: _EATS} if step == "scratch" else {}
    checkout = made(root / "checkout", wheels, CASES, more=more)
    place = checkout.published if step == "published" else root / "small"
    disk = SmallDisk(place)
    try:
        return _STEPS[step](Trial(checkout=checkout, disk=disk, step=step, room=room))
    finally:
        disk.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A checkout with one of its places on a small disk."""

    checkout: Checkout
    disk: SmallDisk
    step: str
    room: int

    @property
    def known(self) -> dict[tuple[str, str, str], str]:
        """What every cell is known to do."""
        eater = {
            (EATER, release, precision): "passes"
            for release in ("1.0.0", "1.1.0")
            for precision in ("fp32", "bf16")
        }
        return expected(CASES) | (eater if self.step == "scratch" else {})

    def fate(self, lost: int, untrue: int, torn: int, ends: Sequence[Finished]) -> Fate:
        unsaid = sum(_is_unsaid(one) for one in ends)
        what = f"{self.step} with {self.room} KiB"
        return Fate(what=what, lost=lost, untrue=untrue, torn=torn, unsaid=unsaid)

    def missed(self, outcomes: dict[tuple[str, str, str], str]) -> int:
        return sum(outcomes.get(cell) != was for cell, was in self.known.items())

    def untrue(self, outcomes: dict[tuple[str, str, str], str]) -> int:
        return sum(self.known.get(cell) != was for cell, was in outcomes.items())


def _is_unsaid(done: Finished) -> bool:
    """Say whether an end is none of ours, or one that went wrong and does not say why."""
    said = done.err + done.out
    if done.code not in _CODES or "Traceback" in said:
        return True
    return done.code in {2, 4} and not any(word in said for word in ("space", "disk"))


def _moved(variable: str, name: str) -> Callable[[Trial], Fate]:
    """Return the trial of a run that has one of its places on the small disk."""

    def run(trial: Trial) -> Fate:
        told = {variable: str(trial.disk.folder / name)}
        trial.disk.fill(trial.room)
        first = trial.checkout.matrix(**told)
        between = trial.checkout.outcomes()
        trial.disk.clear()
        second = trial.checkout.matrix(**told)
        outcomes = trial.checkout.outcomes()
        lost = trial.missed(outcomes) + sum(cell not in outcomes for cell in between)
        return trial.fate(lost, trial.untrue(between), 0, [first, second])

    return run


def _store(trial: Trial) -> Fate:
    """Fill the disk of the store while it is made, or while cells are stored."""
    store = trial.disk.folder / "evidence.sqlite"
    trial.disk.fill(trial.room)
    first = trial.checkout.matrix(REPROMATRIX_STORE=str(store))
    between = _rows(store)
    trial.disk.clear()
    second = trial.checkout.matrix(REPROMATRIX_STORE=str(store))
    rows = _rows(store)
    # What was stored before is not measured again: its run is the first one's.
    lost = sum(rows.get(cell) != row for cell, row in between.items())
    lost += trial.missed({cell: outcome for cell, (outcome, _) in rows.items()})
    lost += len(list(store.parent.glob("*.kept-*")))
    untrue = trial.untrue({cell: outcome for cell, (outcome, _) in between.items()})
    return trial.fate(lost, untrue, 0, [first, second])


def _evidence(trial: Trial) -> Fate:
    """Fill the disk of a store that has everything, and ask it, and run on it."""
    store = trial.disk.folder / "evidence.sqlite"
    told = {"REPROMATRIX_STORE": str(store)}
    first = trial.checkout.matrix(**told)
    before, content = _rows(store), trial.checkout.run("results", **told).out
    trial.disk.fill(trial.room)
    asked = trial.checkout.run("results", **told)
    again = trial.checkout.matrix("--rerun", **told)
    trial.disk.clear()
    after = _rows(store)
    lost = sum((after.get(cell) or ("", ""))[0] != was for cell, (was, _) in before.items())
    lost += len(before) != len(trial.known) or asked.out != content
    lost += len(list(store.parent.glob("*.kept-*")))
    return trial.fate(lost, 0, 0, [first, asked, again])


def _pages(trial: Trial) -> Fate:
    """Draw anew where old pages lie: each must be the old one or the new one."""
    checkout, site = trial.checkout, trial.disk.folder / "site"
    checkout.matrix("--case", "toy_0", REPROMATRIX_SITE=str(site))
    old = _files(site)
    ran = checkout.matrix()
    new = _files(checkout.site)
    trial.disk.fill(trial.room)
    drawn = checkout.run("report", REPROMATRIX_SITE=str(site))
    torn = sum(
        content not in {old.get(name), new.get(name)} for name, content in _files(site).items()
    )
    torn += sum(name not in _files(site) for name in old if name in new)
    trial.disk.clear()
    again = checkout.run("report", REPROMATRIX_SITE=str(site))
    torn += _files(site) != new
    return trial.fate(trial.missed(checkout.outcomes()), 0, torn, [ran, drawn, again])


def _published(trial: Trial) -> Fate:
    """Publish over an older set: afterwards it is the older one or the new one, whole."""
    checkout, disk = trial.checkout, trial.disk
    first = [checkout.matrix(), checkout.run("publish")]
    old = _files(disk.folder)
    later = checkout.root / "cases" / "toy_0.py"
    later.write_text(later.read_text() + "\nmeasured['more'] = 2.0\n")
    ran = checkout.matrix()
    disk.fill(trial.room)
    full = checkout.run("publish")
    found = _files(disk.folder)
    disk.clear()
    again = checkout.run("publish")
    new = _files(disk.folder)
    torn = len(set(found.items()) ^ set(old.items())) if full.code else 0
    torn += not old or new == old
    return trial.fate(trial.missed(checkout.outcomes()), 0, torn, [*first, ran, full, again])


_STEPS: dict[str, Callable[[Trial], Fate]] = {
    "environments": _moved("REPROMATRIX_ENVIRONMENTS", "environments"),
    "cache": _moved("UV_CACHE_DIR", "cache"),
    "scratch": _moved("TMPDIR", ""),
    "store": _store,
    "evidence": _evidence,
    "pages": _pages,
    "published": _published,
}


def _rows(store: Path) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Return outcome and run of every stored cell, from a copy: nothing of ours reads it."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal", "-journal"):
            path = store.with_name(store.name + suffix)
            if path.exists():
                shutil.copy(path, Path(folder) / path.name)
        copy = Path(folder) / store.name
        if not copy.exists():
            return {}
        with closing(sqlite3.connect(copy)) as database:
            asked = "SELECT 1 FROM sqlite_master WHERE name = 'cells'"
            if not database.execute(asked).fetchone():
                return {}
            found = database.execute(
                "SELECT case_name, environment, precision, outcome, run FROM cells"
            )
            return {(a, b, c): (outcome, run) for a, b, c, outcome, run in found}


def _files(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, drafts too; neither our filler nor what identifies a drawing."""
    left_out = {".filler", ".identity"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in left_out
    }


if __name__ == "__main__":
    main()
