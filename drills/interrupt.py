"""Ctrl-C at random moments of each command that takes a second: it ends soon and with 130, leaves
nothing, and the next run ends as ever. Set REPRO_COUNT for another number of moments, and
REPRO_COMMANDS to try some commands only, such as `sweep,matrix --ray`: rows of others stay.

Commands that build and write run in a checkout of toys, those that read in this one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from histories import History

from drills.checkout import FAILS, RELEASES, Checkout, made, made_wheel, made_wheels
from drills.index import serving
from drills.kill import processes_of, quick_disk
from repromatrix.runner.execution.ray.task import packages_of
from repromatrix.runner.paths import ROOT
from repromatrix.runner.worker import process_control
from repromatrix.tools.bundle.pack import carried

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from drills.tally import Tally

SEED, COUNT = 7, 30
SOON, RAY_SOON = 5.0, 25.0
"""Seconds within which an interrupted command ends."""
INTERRUPTED = 130
_LONG, _PATIENCE = 1800.0, 20
_TOO_LATE = 0.3
"""Seconds before its end by itself in which a command may be past hearing a signal."""
_PYTHONS = re.compile(
    r"^(Traceback|Exception ignored|Fatal Python error|KeyboardInterrupt)", re.MULTILINE
)
_WRITTEN = (
    "cases",
    "environments",
    "reports/published",
    "reports/site",
    ".repromatrix",
    ".nox",
    ".user",
)
"""What commands write to below a checkout of toys."""
_DRAFTS = ("*.draft", "*.part", "draft-*")
_KINDS = {".csv", ".html", ".json", ".md", ".py", ".toml", ".txt", ".xz"}
"""What commands write, but for stores."""
_TEXTS = ("cases", "environments/locks")
"""Of these it counts what is in them, too."""
_VERSION = ("transformers.__version__", 'vars(transformers)["__{}__".format("version")]')
_ABOUT = ('models = ["toy"]', 'models = ["toy"]\n# trigger = ["load"]\n# symptom = ["error"]')
"""What of a toy is refused where cases are checked, and what stands there instead."""
_RUN = ("--release", RELEASES[0], "--precision", "bf16")
_BISECTED = ("bisect", "toy_1", "--precision", "fp32")
_BLAMED = ("--precision", "fp32", "--good", RELEASES[0], "--bad", RELEASES[1])
_SIDES = ("--release", "5.23.0", "--against", "5.22.2")
_SWEPT = (*_SIDES, "--model", "llama", "--probe", "outputs-fp32")
_COMMITS = ("1.0.0 1.0.0", "1.1.0 1.0.0", "1.1.0 1.1.0", "1.1.0 1.1.0", "1.2.0 1.1.0")
"""What version the sources of a commit claim, and as which release they behave."""
_PACKED = ("bundle", "--python-version", "3.11", "--output")
_DID_IT = {0, 1}
"""Exit codes of a command that did what it is there for."""
_LISTED = "transformers==4.50.3\naccelerate==1.6.0\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where commands run; all that they write is below `folder` and `temporary`."""

    root: Path
    folder: Path
    temporary: Path
    """Their folder for temporary files."""
    environ: Mapping[str, str]
    written: tuple[Path, ...]

    @property
    def said(self) -> Path:
        """What a command says of errors."""
        return self.folder / "said"

    def put_back(self, saved: Path) -> None:
        """Let all that commands write be as it was saved; what one left is no other's."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        for number, path in enumerate(self.written):
            shutil.rmtree(path, ignore_errors=True)
            if (saved / str(number)).exists():
                shutil.copytree(saved / str(number), path, symlinks=True)

    def save(self, saved: Path) -> Path:
        """Copy all that commands write."""
        for number, path in enumerate(self.written):
            if path.exists():
                shutil.copytree(path, saved / str(number), symlinks=True)
        return saved


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command as it is typed, what is there before it, and how soon it has to end."""

    place: Place
    words: tuple[str, ...]
    saved: Path
    """What its place holds when it begins."""
    reads: bool = False
    """Whether what it prints is all that it does."""
    soon: float = SOON
    name: str = ""

    @property
    def title(self) -> str:
        """How the table calls it."""
        return self.name or self.words[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How a command ends when nobody interrupts it."""

    code: int
    seconds: float
    state: Mapping[str, object]


@dataclass(kw_only=True, slots=True)
class Interruptions:
    """What interruptions of a command did."""

    times: int = 0
    early: int = 0
    """Before Python ran a line of ours."""
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


def drill(tally: Tally) -> None:
    """Interrupt every command at random moments, and count which end otherwise than they must."""
    seed, count = int(os.environ.get("REPRO_SEED", SEED)), int(os.environ.get("REPRO_COUNT", COUNT))
    chosen = os.environ.get("REPRO_COMMANDS", "")
    print(f"seed {seed}", flush=True)
    tally.is_part = bool(chosen)
    with (
        tempfile.TemporaryDirectory(prefix="interrupt-", dir=quick_disk()) as name,
        # A short path: Ray has sockets in it.
        tempfile.TemporaryDirectory(prefix="i", dir=quick_disk()) as temporary,
    ):
        makers = (corpus(Path(name)), toys(Path(name), Path(temporary)))
        for command in itertools.chain.from_iterable(makers):
            if not chosen or command.title in chosen.split(","):
                drawn = random.Random(f"{seed} {command.title}")
                counted(tally, command, [drawn.random() for _ in range(count)], seed)


def counted(tally: Tally, command: Command, moments: Sequence[float], seed: int) -> None:
    """Interrupt one command, and count what went wrong."""
    usual = usually(command)
    what = f"interruptions of `{command.title}`"
    if usual.code not in _DID_IT:
        print(command.place.said.read_text(errors="replace")[-1500:], flush=True)
        note = f"it ends with {usual.code} by itself"
        tally.count(what, 0, "ended otherwise than they must", 0, note)
        return
    found = tried(command, usual, moments)
    note = (
        f"seed {seed}, {found.early} before its first line; it takes {usual.seconds:.1f} s and ends"
        f" with {usual.code}; the slowest end took {found.slowest:.1f} s"
    )
    tally.count(what, found.times, "ended otherwise than they must", len(found.wrong), note)


def usually(command: Command) -> Usual:
    """Run a command twice: the first time Python may compile what it imports."""
    command.place.put_back(command.saved)
    ended(command)
    command.place.put_back(command.saved)
    return ended(command)


def tried(command: Command, usual: Usual, moments: Sequence[float]) -> Interruptions:
    """Interrupt a command at shares of its usual time."""
    found = Interruptions()
    for moment in moments:
        share = moment
        while not _is_tried(command, usual, share, found):
            share *= 0.9  # it had ended before: a little earlier
    return found


def _is_tried(command: Command, usual: Usual, share: float, found: Interruptions) -> bool:
    """Interrupt a command once and note what was wrong; say whether it was still running."""
    command.place.put_back(command.saved)
    with started(command) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=share * usual.seconds)
            return False
        is_early = not _answers(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        seconds, wrong = _late(process, command.soon)
    if process.returncode == usual.code and seconds < _TOO_LATE:
        return False
    wrong += wrong_end(process.returncode, command.place.said.read_text(errors="replace"), is_early)
    wrong += left(command.place)
    again = ended(command)
    if again.code != usual.code:
        wrong.append(f"the next run ended with {again.code}")
    wrong += [
        f"afterwards other {name}" for name, was in usual.state.items() if again.state[name] != was
    ]
    if wrong:
        print(f"  {command.title} at {share:.3f}: {'; '.join(wrong)}", flush=True)
        found.wrong.append("; ".join(wrong))
    found.times += 1
    found.early += is_early
    found.slowest = max(found.slowest, seconds)
    return True


def _answers(pid: int) -> bool:
    """Say whether a program has begun to answer signals: Python alone answers no SIGTERM."""
    text = Path(f"/proc/{pid}/status").read_text()
    caught = int(text.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> signal.SIGTERM - 1 & 1)


def _late(process: subprocess.Popen[bytes], soon: float) -> tuple[float, list[str]]:
    """Wait for the end of what was interrupted: its seconds, and what is wrong with them.

    Those in which it waited for a core are not counted: others may keep the machine busy.
    """
    at, waited = time.monotonic(), process_control.waited(process.pid)
    while time.monotonic() - at < _PATIENCE * soon:
        # Not awaited before the system was asked how long it waited.
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            seconds = time.monotonic() - at - (process_control.waited(process.pid) - waited)
            process.wait()
            return seconds, [f"an end after {seconds:.1f} s"] if seconds > soon else []
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return _PATIENCE * soon, [f"no end within {_PATIENCE * soon:.0f} s"]


def wrong_end(code: int, said: str, is_early: bool) -> list[str]:  # noqa: FBT001
    """Say what is wrong with an exit code and the last words; Python's own are not ours."""
    if is_early and code in {-signal.SIGINT, 1}:
        return []
    wrong = [] if code == INTERRUPTED else [f"exit code {code}"]
    wrong += ["words of Python's own"] if _PYTHONS.search(said) else []
    return [*wrong, said[-1500:]] if wrong else []


def left(place: Place) -> list[str]:
    """Say what is there after an end that must not be: processes, files, damaged stores."""
    deadline = time.monotonic() + SOON
    while (living := processes_of(place.folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [f"process {pid}: {_command(pid)}" for pid in living]
    process_control.kill(living)  # each is left once
    found += [f"left {path}" for path in place.temporary.iterdir()]
    for path in place.written:
        found += [f"left {draft}" for kind in _DRAFTS for draft in path.rglob(kind)]
        for store in path.rglob("*.sqlite"):
            with closing(sqlite3.connect(store)) as database:
                said = database.execute("PRAGMA integrity_check").fetchall()
            found += [] if said == [("ok",)] else [f"{store.name}: {said}"]
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        # Where a program gave itself a title, blanks follow it.
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
        return b" ".join(words).decode()[-200:]
    return "gone"


@contextlib.contextmanager
def started(command: Command) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command as a shell does: leader of the group that a terminal would interrupt."""
    place = command.place
    with place.said.open("wb") as said, (place.folder / "told").open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "repromatrix", *command.words],
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
    state: dict[str, object] = {
        "files": sorted(
            str(path)
            for folder in place.written
            for path in folder.rglob("*")
            if path.suffix in _KINDS
        ),
        "cells": _cells(place),
        "texts": [
            path.read_text()
            for folder in _TEXTS
            for path in sorted((place.root / folder).glob("*.*"))
        ],
    }
    if command.reads:
        state["words"] = (place.folder / "told").read_text()
    return Usual(code=code, seconds=seconds, state=state)


def _cells(place: Place) -> dict[tuple[str, ...], str]:
    """Return the outcome of every cell that is stored."""
    found: dict[tuple[str, ...], str] = {}
    for store in sorted(path for folder in place.written for path in folder.rglob("*.sqlite")):
        with (
            closing(sqlite3.connect(store)) as database,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            asked = "SELECT case_name, workaround, environment, precision, outcome FROM cells"
            found |= {(store.name, *key): outcome for *key, outcome in database.execute(asked)}
    return found


def toys(folder: Path, temporary: Path) -> Iterator[Command]:
    """Yield the commands that build, run and write, in a checkout of toys."""
    wheels = made_wheels(folder / "wheels")
    checkout = made(folder / "toys" / "checkout", wheels, 2)
    for path in (checkout.root / "cases").glob("*.py"):
        path.write_text(path.read_text().replace(*_VERSION).replace(*_ABOUT))
    temporary.mkdir(exist_ok=True)
    # What a node of Ray installs from an index is there: its Python is this one.
    shutil.copy(ROOT / "pyproject.toml", checkout.root)
    packages, _ = packages_of(ROOT, folder / "toys" / "cache" / "repromatrix")
    packages.mkdir(parents=True)
    place = Place(
        root=checkout.root,
        folder=folder / "toys",
        temporary=temporary,
        environ=checkout.environ(
            TMPDIR=str(temporary),
            XDG_CACHE_HOME=str(folder / "toys" / "cache"),
            RAY_worker_niceness="0",
        ),
        written=tuple(checkout.root / name for name in _WRITTEN),
    )
    new = place.save(folder / "new")
    grid = ("matrix", "--release", ",".join(RELEASES))
    yield Command(place=place, words=grid, saved=new)
    yield Command(place=place, words=("environment", *RELEASES), saved=new)
    yield Command(place=place, words=("run", "toy_0", *_RUN), saved=new)
    yield Command(place=place, words=_BISECTED, saved=new)
    clone = str(_clone(folder / "clone"))
    words = (*_BISECTED, "--commits", "--repo", clone)
    yield Command(place=place, words=words, saved=new, name="bisect --commits")
    yield Command(place=place, words=("blame", "toy_1", *_BLAMED), saved=new)
    yield Command(place=place, words=("diff", *RELEASES), saved=new, name="diff")
    history = ("history", "--repo", clone, "--every", "1")
    yield Command(place=place, words=history, saved=new)
    for needed in carried():
        name, _, version = needed.partition("==")
        made_wheel(wheels, name, version)
    packed = (*_PACKED, str(checkout.root / "environments" / "bundle.tar.xz"))
    yield Command(place=place, words=packed, saved=new)
    with serving(wheels) as index:
        there = {name: place.environ[name] for name in place.environ if not name.startswith("PIP_")}
        served = dataclasses.replace(place, environ={**there, "PIP_INDEX_URL": index.address})
        yield Command(place=served, words=("lock",), saved=new)
    ray = (*grid, "--ray", "local")
    yield Command(place=place, words=ray, saved=new, soon=RAY_SOON, name="matrix --ray")
    place.put_back(new)
    ended(Command(place=place, words=grid, saved=new))
    store = checkout.store.rename(folder / "toys" / "other.sqlite")
    yield Command(place=place, words=("merge", str(store)), saved=place.save(folder / "built"))
    shutil.copy(store, checkout.store)
    for path in (checkout.root / "cases").glob("*.py"):
        path.write_text(path.read_text().replace(FAILS, ""))
    measured = place.save(folder / "measured")
    yield Command(place=place, words=("report",), saved=measured)
    yield Command(place=place, words=("publish",), saved=measured)
    yield Command(place=place, words=("accept", "--allow-regressions"), saved=measured)


def _clone(folder: Path) -> Path:
    """Make a clone of the toys' package, in whose middle a toy breaks."""
    clone = History()
    for number, (claims, acts) in enumerate(map(str.split, _COMMITS)):
        text = f'__version__ = "{claims}.dev0"\n__version__ = "{acts}"\nnumber = {number}\n'
        files = {"src/transformers/__init__.py": text, "setup.py": "setup(install_requires=[])\n"}
        clone.commit(str(number), files)
    return clone.write(folder)


def corpus(folder: Path) -> Iterator[Command]:
    """Yield the commands that read what this checkout has, and the sweep of a few models."""
    place = Place(
        root=ROOT,
        folder=folder / "corpus",
        temporary=folder / "corpus" / "temporary",
        environ=Checkout(root=folder / "corpus", wheels=folder).environ(
            TMPDIR=str(folder / "corpus" / "temporary"),
            REPROMATRIX_STORE=str(folder / "corpus" / "written" / "evidence.sqlite"),
            REPROMATRIX_SITE=str(folder / "corpus" / "written" / "site"),
        ),
        written=(folder / "corpus" / "written",),
    )
    place.temporary.mkdir(parents=True)
    listed = folder / "corpus" / "requirements.txt"
    listed.write_text(_LISTED)
    new = place.save(folder / "nothing")
    for words in (
        ("results",),
        ("audit", str(listed)),
        ("advise",),
        ("check",),
    ):
        yield Command(place=place, words=words, saved=new, reads=True)
    issues = ("issues", str(folder / "corpus" / "written" / "issues"))
    yield Command(place=place, words=issues, saved=new, reads=True)
    # With the user's own index, of which commands in a drill know nothing.
    builds = [sys.executable, "-m", "repromatrix", "environment", *_SIDES[1::2]]
    subprocess.run(builds, cwd=ROOT, check=True, timeout=_LONG)
    yield Command(place=place, words=("sweep", *_SWEPT), saved=new)
    virtual = str(min((ROOT / ".nox" / "environments").glob("*-*")))
    asked = dataclasses.replace(place, environ={**place.environ, "VIRTUAL_ENV": virtual})
    yield Command(place=asked, words=("doctor",), saved=new, reads=True)
