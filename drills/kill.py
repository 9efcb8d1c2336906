"""SIGKILL of the runner, of a worker, of a cell and of nox at random moments of a run; what was
committed is read from outside, and the next run has to go on with exactly what is missing.

Most runs are of a case that is made for it, some of cases of the corpus.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner.paths import ROOT
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from drills.tally import Tally

SEED = 7
RELEASE = "4.50.0"
CORPUS = ("llama_norms_fp32_half", "llama_rotary_frequencies_half")
SIDE_BY_SIDE = 3
"""Most of a run's time nothing is computed."""
_VARIANTS = 9
_CASE = """# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case of many cells that take a moment"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
{workarounds}
#
# [[tool.repromatrix.fails]]
# workarounds = ["w3", "w8"]
# raises = "ValueError"
# match = "as described"
# ///
\"\"\"Waiting works, and does. Some cells fail as described, one as nobody said.\"\"\"

import subprocess
import sys
import tempfile
import time


def main(precision: str, workaround: str = "") -> None:
    tempfile.mkstemp()
    if workaround == "w1":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    time.sleep(0.02)
    if workaround in {{"w3", "w8"}}:
        raise ValueError("it fails as described")
    if workaround == "w6" and precision == "fp16":
        raise KeyError("nobody said so")


if __name__ == "__main__":
    main(*sys.argv[1:])
"""
_DEAD = 5.0
"""Seconds after which nothing of a killed run may live; one that is told to end draws its page."""
_TOLD = 60.0
_END = 600.0


class Target(StrEnum):
    """Whom to kill."""

    RUNNER = "runner"
    WORKER = "worker"
    CELL = "cell"
    NOX = "nox"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A row as somebody from outside reads it."""

    outcome: str
    error: str
    unstable: bool
    repeats: int
    run: str

    @property
    def said(self) -> tuple[str, str]:
        return self.outcome, self.error


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What is run, and what comes of it when nobody is killed."""

    options: tuple[str, ...]
    store: str
    rows: Mapping[tuple[str, ...], Stored] = field(default_factory=dict)
    code: int = 0
    seconds: float = 0.0


@dataclass(kw_only=True, slots=True)
class Found:
    """What a kill did that it must not."""

    committed: int = 0
    lost: list[object] = field(default_factory=list)
    doubled: list[object] = field(default_factory=list)
    wrong: list[object] = field(default_factory=list)
    not_resumed: list[object] = field(default_factory=list)
    processes: list[object] = field(default_factory=list)
    files: list[object] = field(default_factory=list)


def drill(tally: Tally, kills: int = 200, of_corpus: int = 20) -> None:
    """Kill at random moments and count what was lost, doubled, told wrong or left."""
    print(f"seed {SEED}", flush=True)
    with tempfile.TemporaryDirectory(dir=quick_disk()) as name:
        home = Path(name)
        quick = fakes(home)
        _through_the_door(home, quick)
        found = tried(home, quick, kills - of_corpus, SEED)
        found += tried(home, undisturbed(home, corpus()), of_corpus, SEED + 1)
    number, committed = len(found), sum(one.committed for one in found)
    note = f"seed {SEED}, {committed:,} cells were committed when it happened"
    tally.count("kills", number, "committed cells lost", _sum(found, "lost"), note)
    tally.count("kills", number, "cells doubled", _sum(found, "doubled"))
    tally.count("kills", number, "cells that say something else", _sum(found, "wrong"))
    what = "next runs that ran more or less than was missing"
    tally.count("kills", number, what, _sum(found, "not_resumed"))
    tally.count("kills", number, "processes left", _sum(found, "processes"))
    tally.count("kills", number, "files left after the next run", _sum(found, "files"))


def _through_the_door(home: Path, scene: Scene) -> None:
    """Go through nox once: one that installs the runner for the first time is not in a run yet."""
    with tempfile.TemporaryDirectory(dir=home) as name:
        start(Path(name), scene, Target.NOX).communicate(timeout=_END)


def _sum(found: Sequence[Found], what: str) -> int:
    return sum(len(getattr(one, what)) for one in found)


def quick_disk() -> str | None:
    """Return a folder in memory, where there is one: many small runs wait for a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def fakes(home: Path) -> Scene:
    """Return a run of a case of many quick cells, ended once by itself."""
    path = home / "drilled.py"
    lines = [f'# w{number} = "The same again."' for number in range(1, _VARIANTS + 1)]
    path.write_text(_CASE.format(workarounds="\n".join(lines)))
    options = ("--release", RELEASE, "--case", str(path), "--jobs", "2")
    return undisturbed(home, Scene(options=options, store="own-evidence.sqlite"))


def corpus() -> Scene:
    """Return a run of cases of the corpus."""
    options = ("--release", RELEASE, "--case", ",".join(CORPUS), "--jobs", "2")
    return Scene(options=options, store="evidence.sqlite")


def undisturbed(home: Path, scene: Scene) -> Scene:
    """Run it to its end and return it with what came of it."""
    with tempfile.TemporaryDirectory(dir=home) as name:
        begin = time.monotonic()
        process = start(Path(name), scene, Target.RUNNER)
        out, _ = process.communicate(timeout=_END)
        seconds = time.monotonic() - begin
        rows = stored(Path(name) / scene.store)
    if process.returncode not in {0, 1} or not rows:
        raise SystemExit(out)
    keys = {key: one[0] for key, one in rows.items()}
    return Scene(
        options=scene.options,
        store=scene.store,
        rows=keys,
        code=process.returncode,
        seconds=seconds,
    )


def tried(
    home: Path, scene: Scene, kills: int, seed: int, targets: Sequence[Target] = ()
) -> list[Found]:
    """Kill each target in turn, at moments that a seed gives; some runs go on side by side."""
    drawn = random.Random(seed)
    cycle = itertools.cycle(targets or Target)
    tries = [(next(cycle), drawn.random()) for _ in range(kills)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as workers:
        return list(workers.map(lambda one: killed(home, scene, *one), tries))


def killed(home: Path, scene: Scene, target: Target, when: float) -> Found:
    """Kill one target of a run, run again, and return what was wrong."""
    while True:
        with tempfile.TemporaryDirectory(dir=home) as name:
            found = _killed(Path(name), scene, target, when)
        if found is not None:
            for what in ("lost", "doubled", "wrong", "not_resumed", "processes", "files"):
                if getattr(found, what):
                    print(f"  {target} at {when:.3f}: {what}: {getattr(found, what)}", flush=True)
            return found
        when *= 0.9  # it had ended before: a little earlier


def _killed(folder: Path, scene: Scene, target: Target, when: float) -> Found | None:
    process = start(folder, scene, target)
    before = _kill(process, folder, scene, target, when)
    if before is None:
        process.communicate(timeout=_END)
        return None
    found = Found(committed=len(before))
    found.processes = _left_alive(process, folder, target)
    after = stored(folder / scene.store)
    found.lost = [key for key in before if key not in after]
    missing = len(scene.rows) - len(after) + sum(map(_again, itertools.chain(*after.values())))
    resumed = start(folder, scene, Target.RUNNER)
    out, _ = resumed.communicate(timeout=_END)
    # Looked for before anybody reads again: a reader leaves files beside a store, too.
    found.files = left_over(folder, scene)
    finally_ = stored(folder / scene.store)
    found.not_resumed = not_resumed(scene, out, missing, resumed.returncode, target)
    found.lost += [key for key in scene.rows if key not in finally_]
    found.doubled = [key for key, rows in finally_.items() if len(rows) > 1]
    found.wrong = wrong_rows(scene, finally_, target)
    found.processes += processes_of(folder)
    return found


def _again(row: Stored) -> bool:
    """Say whether the next run runs a cell: unbuildable, or unexpected and not repeated."""
    if row.outcome == "unbuildable":
        return True
    return row.repeats == 1 and (row.outcome == "crashes" or row.error == "KeyError")


def not_resumed(scene: Scene, out: str, missing: int, code: int, target: Target) -> list[object]:
    said = re.search(r"^([\d,]+) cells? measured", out, re.MULTILINE)
    ran = int(said[1].replace(",", "")) if said else -1
    # A cell that was killed from outside is unstable from then on, which is to be expected; it may
    # have been the unexpected one.
    codes = {0, 1} if target is Target.CELL else {scene.code}
    if ran == missing and code in codes:
        return []
    return [(f"{missing} missing, {ran} run, exit code {code}", out if said is None else "")]


def wrong_rows(
    scene: Scene, rows: Mapping[tuple[str, ...], Sequence[Stored]], target: Target
) -> list[object]:
    """Return the rows that the undisturbed run has otherwise; a killed cell may be unstable."""
    spared = 1 if target is Target.CELL else 0
    unstable = [key for key, (row, *_) in rows.items() if row.unstable]
    wrong = [
        (key, row)
        for key, (row, *_) in rows.items()
        if key in scene.rows and not row.unstable and row.said != scene.rows[key].said
    ]
    return [*unstable[spared:], *wrong]


def start(folder: Path, scene: Scene, target: Target) -> subprocess.Popen[str]:
    """Start a run whose store, site and temporary files lie in a folder."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    environ = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "REPROMATRIX_STORE": str(folder / "evidence.sqlite"),
        "REPROMATRIX_SITE": str(folder / "site"),
        "TMPDIR": str(temporary),
    }
    through = ["nox", "-s", "matrix", "--"] if target is Target.NOX else ["repromatrix", "matrix"]
    return subprocess.Popen(
        [sys.executable, "-m", *through, *scene.options],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _kill(
    process: subprocess.Popen[str], folder: Path, scene: Scene, target: Target, when: float
) -> Mapping[tuple[str, ...], Sequence[Stored]] | None:
    """Kill at a share of the run's usual time; return what was committed, None where it had ended.

    What was committed is read before, so that nothing is called lost that came later.
    """
    time.sleep(when * scene.seconds)
    while process.poll() is None:
        pid = _pid(process, target)
        if pid is not None:
            before = stored(folder / scene.store)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return before
        time.sleep(0.001)
    return None


def _pid(process: subprocess.Popen[str], target: Target) -> int | None:
    match target:
        case Target.RUNNER | Target.NOX:
            return process.pid
        case Target.WORKER:
            return next(iter(_workers(process.pid)), None)
        case Target.CELL:
            cells = [
                cell
                for worker in _workers(process.pid)
                for cell in process_control.children(worker)
            ]
            return next(iter(cells), None)


def _workers(runner: int) -> list[int]:
    return [pid for pid in process_control.children(runner) if b"\0serve\0" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _left_alive(process: subprocess.Popen[str], folder: Path, target: Target) -> list[object]:
    """Wait for the end of a run, and return what lives on when it must not."""
    if target in {Target.WORKER, Target.CELL}:
        process.communicate(timeout=_END)
        return list(processes_of(folder))
    process.wait()
    deadline = time.monotonic() + (_DEAD if target is Target.RUNNER else _TOLD)
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.stdout is not None
    process.stdout.close()
    return [(pid, _command(pid).replace(b"\0", b" ")[-200:]) for pid in left]


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose environment names a folder, less those that wait to be awaited."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(f"{folder}/") in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if not process_control.has_ended(pid)]


def left_over(folder: Path, scene: Scene) -> list[object]:
    """Return what lies where nothing belongs after a run that ended."""
    site = f"{'own-' if scene.store.startswith('own-') else ''}site"
    known = {"temporary", scene.store, site}
    found: Iterable[Path] = [
        *(path for path in folder.iterdir() if path.name not in known),
        *(folder / "temporary").iterdir(),
        *(folder / site).rglob("*.draft"),
    ]
    return [str(path.relative_to(folder)) for path in found]


def stored(path: Path) -> dict[tuple[str, ...], list[Stored]]:
    """Read what is committed, as any other program would."""
    found: dict[tuple[str, ...], list[Stored]] = {}
    asked = (
        "SELECT case_name, workaround, environment, precision, device, outcome,"
        " coalesce(error_class, ''), unstable, repeats, run FROM cells"
    )
    # Nothing is committed while there is no file or no table.
    with contextlib.suppress(sqlite3.OperationalError):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)
        with contextlib.closing(database):
            for *key, outcome, error, unstable, repeats, run in database.execute(asked):
                row = Stored(
                    outcome=outcome,
                    error=error,
                    unstable=bool(unstable),
                    repeats=repeats,
                    run=run,
                )
                found.setdefault(tuple(key), []).append(row)
    return found
