"""Interrupt each command that takes a second at random moments, as Ctrl-C does.

It must end soon, with 130, and leave nothing; the next run must end as usual. Commands that build
and write run in a made-up checkout, those that read in this one.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from commands import SOON, Command, Place, corpus, quick_disk, toys

from checks.table import Table
from repromatrix.runner.worker import process_control

SEED, COUNT = 7, 30
INTERRUPTED = 130
_LONG, _PATIENCE = 1800.0, 20
_TOO_LATE = 0.3
"""Seconds before its end by itself in which a command may be past hearing a signal."""
_PYTHONS = re.compile(
    r"^(Traceback|Exception ignored|Fatal Python error|KeyboardInterrupt)", re.MULTILINE
)
_DRAFTS = ("*.draft", "*.part", "draft-*")
_KINDS = {".csv", ".html", ".json", ".md", ".py", ".toml", ".txt", ".xz"}
"""What commands write, but for stores."""
_TEXTS = ("cases", "environments/locks")
"""Of these it counts what is in them, too."""
_DID_IT = {0, 1}
"""Exit codes of a command that did what it is there for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How a command ends without an interruption."""

    code: int
    seconds: float
    state: Mapping[str, object]


def check(table: Table, options: argparse.Namespace) -> None:
    """Interrupt every command at random moments, and count those that end wrongly."""
    seed, count = options.seed or SEED, options.count or COUNT
    chosen = options.only.split(",")
    with (
        tempfile.TemporaryDirectory(prefix="interrupt-", dir=quick_disk()) as name,
        # A short path: Ray has sockets in it.
        tempfile.TemporaryDirectory(prefix="i", dir=quick_disk()) as temporary,
    ):
        makers = (corpus(Path(name)), toys(Path(name), Path(temporary)))
        found: dict[str, list[list[str]]] = {}
        for command in itertools.chain.from_iterable(makers):
            if chosen == [""] or command.title in chosen:
                drawn = random.Random(f"{seed} {command.title}")
                found[command.title] = tried(command, [drawn.random() for _ in range(count)])
    idle = [title for title, ends in found.items() if not ends]
    table.count("commands interrupted", len(found), "did not run", len(idle), ", ".join(idle))
    wrong = {title: sum(map(bool, ends)) for title, ends in found.items() if any(ends)}
    times = sum(map(len, found.values()))
    note = ", ".join([f"seed {seed}", *(f"{title}: {number}" for title, number in wrong.items())])
    table.count("interruptions", times, "ended otherwise than they must", sum(wrong.values()), note)


def usually(command: Command) -> Usual:
    """Run a command twice: the first time Python may compile what it imports."""
    command.place.put_back(command.saved)
    ended(command)
    command.place.put_back(command.saved)
    return ended(command)


def tried(command: Command, moments: Sequence[float]) -> list[list[str]]:
    """Interrupt a command at shares of its usual time; return what was wrong with each end.

    Nothing where it does not do its work when nobody interrupts it.
    """
    usual = usually(command)
    print(f"{command.title}: {usual.seconds:.1f} s, exit code {usual.code}", flush=True)
    if usual.code not in _DID_IT:
        print(command.place.said.read_text(errors="replace")[-1500:], flush=True)
        return []
    return [_interrupted(command, usual, moment) for moment in moments]


def _interrupted(command: Command, usual: Usual, share: float) -> list[str]:
    """Interrupt a command once, run it again, and return what was wrong."""
    while (wrong := _end(command, usual, share)) is None:
        share *= 0.9  # it had ended before: a little earlier
    wrong += left(command.place)
    again = ended(command)
    if again.code != usual.code:
        wrong.append(f"the next run ended with {again.code}")
    wrong += [
        f"afterwards other {name}" for name, was in usual.state.items() if again.state[name] != was
    ]
    if wrong:
        print(f"  {command.title} at {share:.3f}: {'; '.join(wrong)}", flush=True)
    return wrong


def _end(command: Command, usual: Usual, share: float) -> list[str] | None:
    """Interrupt a command and return what was wrong with its end; None where it was over."""
    command.place.put_back(command.saved)
    with started(command) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=share * usual.seconds)
            return None
        is_early = not _answers(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        seconds = _seconds(process, command.soon)
    if process.returncode == usual.code and seconds < _TOO_LATE:
        return None
    said = command.place.said.read_text(errors="replace")
    late = [f"an end after {seconds:.1f} s"] if seconds > command.soon else []
    return [*late, *wrong_end(process.returncode, said, is_early=is_early)]


def _answers(pid: int) -> bool:
    """Say whether a program has begun to answer signals: Python alone answers no SIGTERM."""
    text = Path(f"/proc/{pid}/status").read_text()
    caught = int(text.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> signal.SIGTERM - 1 & 1)


def _seconds(process: subprocess.Popen[bytes], soon: float) -> float:
    """Wait for the end of what was interrupted, or end it; return the seconds.

    Those in which it waited for a core are not counted: others may keep the machine busy.
    """
    at, waited = time.monotonic(), process_control.waited(process.pid)
    while time.monotonic() - at < _PATIENCE * soon:
        # Not awaited before the system was asked how long it waited.
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            seconds = time.monotonic() - at - (process_control.waited(process.pid) - waited)
            process.wait()
            return seconds
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return _PATIENCE * soon


def wrong_end(code: int, said: str, *, is_early: bool) -> list[str]:
    """Say what is wrong with an exit code and the last words; Python's own are not ours."""
    if is_early and code in {-signal.SIGINT, 1}:
        return []
    wrong = [] if code == INTERRUPTED else [f"exit code {code}"]
    wrong += ["words of Python's own"] if _PYTHONS.search(said) else []
    return [*wrong, said[-1500:]] if wrong else []


def left(place: Place) -> list[str]:
    """Say what is there after an end that must not be: processes, files, damaged stores."""
    found = living(place, SOON)
    found += [f"left {path}" for path in place.temporary.iterdir()]
    for path in place.written:
        found += [f"left {draft}" for kind in _DRAFTS for draft in path.rglob(kind)]
        for store in path.rglob("*.sqlite"):
            with closing(sqlite3.connect(store)) as database:
                said = database.execute("PRAGMA integrity_check").fetchall()
            found += [] if said == [("ok",)] else [f"{store.name}: {said}"]
    return found


def living(place: Place, seconds: float) -> list[str]:
    """Say which processes of a place live on after some seconds, and end them."""
    deadline = time.monotonic() + seconds
    while (pids := processes_of(place.folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [f"process {pid}: {command_of(pid).decode()[-200:]}" for pid in pids]
    process_control.kill(pids)  # each is left once
    return found


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose environment names a folder, less those that wait to be awaited."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(f"{folder}/") in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if not process_control.has_ended(pid)]


def command_of(pid: int) -> bytes:
    """Return the words of a process; where it gave itself a title, blanks follow it."""
    with contextlib.suppress(OSError):
        return b" ".join(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split())
    return b"gone"


@contextlib.contextmanager
def started(command: Command) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command as a shell does: leader of the group that a terminal would interrupt."""
    place = command.place
    with place.said.open("wb") as said, (place.folder / "told").open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", *command.through, *command.words],
            cwd=place.root,
            env=dict(place.environ),
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ended(command: Command) -> Usual:
    """Run a command to its end, and return what is there then."""
    begin = time.monotonic()
    with started(command) as process:
        code = process.wait(timeout=_LONG)
    seconds = time.monotonic() - begin
    place = command.place
    files = (path for folder in place.written for path in folder.rglob("*"))
    texts = (path for folder in _TEXTS for path in sorted((place.root / folder).glob("*.*")))
    state: dict[str, object] = {
        "files": sorted(str(path) for path in files if path.suffix in _KINDS),
        "cells": {key: [row[0] for row in rows] for key, rows in place.cells().items()},
        "texts": [path.read_text() for path in texts],
    }
    if command.reads:
        state["words"] = (place.folder / "told").read_text()
    return Usual(code=code, seconds=seconds, state=state)
