"""Kill the runner, a worker, a cell and nox at random moments, and run several at once.

SQLite alone reads what was committed, and the next run must measure exactly what is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from commands import Cells, Command, Place, quick_disk

from checks.interrupt import Usual, command_of, ended, left, living, started, usually
from checks.table import Table
from repromatrix.runner.paths import ROOT
from repromatrix.runner.worker import process_control

SEED, KILLS = 7, 200
RELEASE = "4.50.0"
AT_ONCE = (2, 8)
CASE = ROOT / "tests" / "fixtures" / "killed" / "many_cells.py"
_DEAD, _TOLD = 5.0, 60.0
"""Seconds after which a killed run has no process; one that is asked to end draws its page."""
_END = 600.0
_MEASURED = re.compile(r"^([\d,]+) cells? measured", re.MULTILINE)


class Target(StrEnum):
    """Whom to kill."""

    RUNNER = "runner"
    WORKER = "worker"
    CELL = "cell"
    NOX = "nox"


class Wrong(StrEnum):
    """What must not come of a kill."""

    LOST = "committed cells lost"
    DOUBLED = "cells doubled"
    OTHER = "cells that say something else"
    RESUMED = "next runs that ended otherwise, or ran more or less than was missing"
    LEFT = "processes or files left"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What runs, and its results without a kill."""

    command: Command
    usual: Usual
    cells: Cells


def check(table: Table, options: argparse.Namespace) -> None:
    """Kill at random moments, and count cells that were lost, doubled or changed, and leftovers."""
    seed, kills = options.seed or SEED, options.count or KILLS
    drawn = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=quick_disk()) as name:
        scene = undisturbed(Path(name))
        # nox may have to install the runner: that is no part of a run yet.
        ended(_through(scene.command, Target.NOX))
        found, committed = Counter[Wrong](), 0
        for target in itertools.islice(itertools.cycle(Target), kills):
            wrong, before = killed(scene, target, drawn.random())
            found.update(wrong)
            committed += before
        note = f"seed {seed}, {committed:,} cells were committed when it happened"
        _count(table, "kills", kills, found, note)
        at_once = Counter(wrong for number in AT_ONCE for wrong in together(scene, number))
    note = f"{' and '.join(map(str, AT_ONCE))} at once on one store"
    _count(table, "concurrent runs", sum(AT_ONCE), at_once, note)


def _count(table: Table, what: str, times: int, found: Counter[Wrong], note: str) -> None:
    for wrong in Wrong:
        table.count(what, times, wrong, found[wrong], note if wrong is Wrong.LOST else "")


def undisturbed(home: Path) -> Scene:
    """Run a case of many quick cells to its end, and return it with what came of it."""
    folder = home / "run"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {
        "REPROMATRIX_STORE": str(folder / "written" / "evidence.sqlite"),
        "REPROMATRIX_SITE": str(folder / "written" / "site"),
        "TMPDIR": str(folder / "temporary"),
    }
    folder.mkdir()
    place = Place(
        root=ROOT,
        folder=folder,
        temporary=folder / "temporary",
        environ=kept | own,
        written=(folder / "written",),
    )
    words = ("matrix", "--release", RELEASE, "--case", str(CASE), "--jobs", "2")
    command = Command(place=place, words=words, saved=home / "nothing")
    usual = usually(command)
    cells = place.cells()
    if usual.code not in {0, 1} or not cells:
        raise SystemExit(place.said.read_text())
    return Scene(command=command, usual=usual, cells=cells)


def _through(command: Command, target: Target) -> Command:
    """Return how a command is typed where its target is killed."""
    if target is not Target.NOX:
        return command
    job, *options = command.words
    words = ("-s", job, "--", *options)
    return dataclasses.replace(command, words=words, through=("nox",))


def killed(scene: Scene, target: Target, when: float) -> tuple[list[Wrong], int]:
    """Kill one target of a run, run again; return what was wrong, and what was committed."""
    place = scene.command.place
    place.put_back(scene.command.saved)
    with started(_through(scene.command, target)) as process:
        before = _kill(process, place, target, when * scene.usual.seconds)
        if before is None:  # it had ended before: a little earlier
            return killed(scene, target, 0.9 * when)
        if target in {Target.WORKER, Target.CELL}:
            process.wait(timeout=_END)
        remains = living(place, _TOLD if target is Target.NOX else _DEAD)
    after = place.cells()
    wrong = [Wrong.LOST for key in before if key not in after]
    missing = len(scene.cells) - len(after) + sum(map(_again, itertools.chain(*after.values())))
    again = ended(scene.command)
    said = place.said.read_text() + (place.folder / "told").read_text()
    wrong += not_resumed(scene, said, missing, again.code, target)
    remains += left(place)
    wrong += [Wrong.LEFT for _ in remains]
    wrong += wrong_cells(scene, place.cells(), spared=target is Target.CELL)
    if wrong:
        print(f"  {target} at {when:.3f}: {', '.join([*wrong, *remains])}\n{said}", flush=True)
    return wrong, len(before)


def _again(row: tuple[str, str, bool, int]) -> bool:
    """Say whether the next run runs a cell: unbuildable, or unexpected and not repeated."""
    outcome, error, _, repeats = row
    if outcome == "unbuildable":
        return True
    return repeats == 1 and (outcome == "crashes" or error == "KeyError")


def not_resumed(scene: Scene, said: str, missing: int, code: int, target: Target) -> list[Wrong]:
    """Return whether the next run ended well and ran exactly the missing number of cells."""
    ran = _MEASURED.search(said)
    # A cell that was killed from outside is unstable from then on, which is to be expected; it may
    # have been the unexpected one.
    codes = {0, 1} if target is Target.CELL else {scene.usual.code}
    resumed = ran and int(ran[1].replace(",", "")) == missing and code in codes
    return [] if resumed else [Wrong.RESUMED]


def wrong_cells(scene: Scene, cells: Cells, *, spared: bool) -> Iterator[Wrong]:
    """Yield what the undisturbed run has otherwise; a cell that was killed may be unstable."""
    yield from (Wrong.LOST for key in scene.cells if key not in cells)
    unstable = 0
    for key, (row, *more) in cells.items():
        outcome, error, is_unstable, _ = row
        unstable += is_unstable
        if more:
            yield Wrong.DOUBLED
        expected = scene.cells.get(key, [row])[0]
        if not is_unstable and (outcome, error) != expected[:2]:
            yield Wrong.OTHER
    yield from [Wrong.OTHER] * (unstable - spared)


def together(scene: Scene, number: int) -> list[Wrong]:
    """Run the same several times at once on one store, and return what was wrong afterwards."""
    place = scene.command.place
    place.put_back(scene.command.saved)
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(started(scene.command)) for _ in range(number)]
        codes = [one.wait(timeout=_END) for one in running]
    wrong = [Wrong.RESUMED for code in codes if code != scene.usual.code]
    wrong += [Wrong.LEFT for _ in left(place)]
    return [*wrong, *wrong_cells(scene, place.cells(), spared=False)]


def _kill(
    process: subprocess.Popen[bytes], place: Place, target: Target, seconds: float
) -> Cells | None:
    """Kill after a time; return what was committed, None where it had ended.

    What was committed is read before, so that nothing is called lost that came later.
    """
    time.sleep(seconds)
    while process.poll() is None:
        pid = _pid(process, target)
        if pid is not None:
            before = place.cells()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return before
        time.sleep(0.001)
    return None


def _pid(process: subprocess.Popen[bytes], target: Target) -> int | None:
    if target in {Target.RUNNER, Target.NOX}:
        return process.pid
    below = process_control.children(process.pid)
    workers: Sequence[int] = [pid for pid in below if b" serve " in command_of(pid)]
    if target is Target.WORKER:
        return next(iter(workers), None)
    return next((cell for one in workers for cell in process_control.children(one)), None)
