"""The quick tests in random order and quick drills, begun over and over for HOURS, two at once,
beside a load and with signals that must not change anything; what they did is added to
drills/soak.jsonl.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from drills.kill import processes_of
from drills.load import loaded
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.paths import ROOT
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from drills.tally import Tally

RECORD = Path(__file__).with_name("soak.jsonl")
TESTS = "tests"
DRILLS = ("upgrade", "places", "store", "isolation")
"""Those that end within minutes and build no environment."""
AT_ONCE = 2
_CODE = ("runner", "tests")
"""Where the cause of a failure may lie: a change there starts the count anew."""
_COUNTED = (*_CODE, "reports", "drills", ":!drills/soak.jsonl")
"""What must be as it was committed for a pass to count."""
_LONG = 10_800.0
"""Seconds after which what still runs is taken for one without an end."""
_LOOK, _GIT, _GRACE, _LEFT = 0.1, 60.0, 30.0, 5.0
_SIGNALS, _STOPPED = (0.5, 5.0), (0.0, 0.5)
"""Seconds between two signals, and for which one is stopped."""
_SWITCH = (1e-6, 1e-2)
"""Seconds after which Python lets another thread run; 5e-3 is usual."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
_SHOWN = 6000
_PYTEST = """
import sys, pytest
sys.setswitchinterval(float(sys.argv[1]))
sys.exit(pytest.main(sys.argv[2:]))
"""
_DRILL = """
import importlib, sys
from pathlib import Path
sys.setswitchinterval(float(sys.argv[1]))
sys.path.insert(0, "bench")
from drills.tally import Tally
tally = Tally(sys.argv[2], Path("none"))
importlib.import_module(f"drills.{tally.drill}").drill(tally)
sys.exit(0 if tally.passed else 1)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class SoakRow:
    """One whole pass of the tests, or one drill; or what failed in one that was cut off."""

    seed: int
    commit: str
    """Empty where what ran is in no commit: it is not counted."""
    code: str
    """What `runner/` and `tests/` hold there."""
    what: str
    seconds: float
    """Since the row before, or since this soak began, so that they add up to hours."""
    whole: bool
    failed: tuple[str, ...] = ()


@dataclass(kw_only=True, slots=True)
class Account:
    """Rows added up."""

    seconds: float = 0.0
    passes: int = 0
    drills: int = 0
    failed: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    def add(self, row: SoakRow) -> None:
        """Add a row."""
        self.seconds += row.seconds
        self.passes += row.whole and row.what == TESTS
        self.drills += row.whole and row.what != TESTS
        self.failed += row.failed
        self.commits += [] if row.commit in self.commits else [row.commit]


def accounted(rows: Iterable[SoakRow]) -> tuple[Account, Account]:
    """Return what counts, and all that there ever was.

    The count begins anew with what passes on other code than that on which something failed.
    """
    counted, ever, broken = Account(), Account(), set[str]()
    for row in rows:
        if not row.commit:
            continue
        if broken and row.code not in broken and not row.failed:
            counted, broken = Account(), set()
        if row.failed:
            broken.add(row.code)
        counted.add(row)
        ever.add(row)
    return counted, ever


def read(record: Path) -> Iterator[SoakRow]:
    """Yield the rows of a file; none where there is no file."""
    if record.exists():
        for line in record.read_text().splitlines():
            row = json.loads(line)
            yield SoakRow(**row | {"failed": tuple(row["failed"])})


def drill(tally: Tally) -> None:
    """Soak for REPRO_HOURS, and count what all soaks did, also where this one is interrupted."""
    seed = int(os.environ.get("REPRO_SEED", time.time_ns() % 10**9))
    print(f"seed {seed}", flush=True)
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    soak = Soak(seed=seed, files=files, drills=DRILLS, record=RECORD)
    soak.go_on(float(os.environ["REPRO_HOURS"]) * 3600)
    tell(tally, *accounted(read(RECORD)))


def tell(tally: Tally, counted: Account, ever: Account) -> None:
    """Count what rows added up to."""
    since = counted.commits[0] if counted.commits else "none"
    note = f"{counted.seconds / 3600:.1f} hours, since commit {since}"
    old = (
        f"ever: {ever.passes} passes and {ever.drills} drills in {ever.seconds / 3600:.1f} hours,"
        f" {len(ever.failed)} failed"
    )
    of_tests = [name for name in counted.failed if name not in DRILLS]
    tally.count(
        "whole passes of the quick tests", counted.passes, "tests failed", len(of_tests), note
    )
    number = len(counted.failed) - len(of_tests)
    tally.count("quick drills beside them", counted.drills, "failed", number, old)


@dataclass(frozen=True, kw_only=True, slots=True)
class Soaking:
    """One program that runs."""

    what: str
    process: subprocess.Popen[bytes]
    folder: Path
    begin: float
    state: tuple[str, str]
    """The commit and its code when it began."""


@dataclass(kw_only=True)
class Soak:
    """Begins tests and drills until its time is over, and adds what they did to a file."""

    seed: int
    files: Sequence[str]
    drills: Sequence[str]
    record: Path
    options: Sequence[str] = ()
    """Further ones of pytest."""
    running: list[Soaking] = field(default_factory=list)
    last: float = 0.0
    begun: int = 0

    def go_on(self, seconds: float) -> None:
        """Begin tests and drills for that long, and let them end; Ctrl-C cuts off what runs.

        What is cut off counts no pass.
        """
        drawn = random.Random(self.seed)
        with tempfile.TemporaryDirectory(prefix="soak-") as name, loaded(self.seed, folder=name):
            self.last = time.monotonic()
            until = self.last + seconds
            try:
                while True:
                    self._take()
                    if time.monotonic() < until:
                        self._fill(Path(name), drawn)
                    elif not self.running:
                        break
                    self._disturb(drawn)
            except Interrupted:
                print("interrupted: what was counted is kept", flush=True)
            finally:
                while self.running:  # a later soak begins with none
                    self._cut(self.running.pop())

    def _take(self) -> None:
        """Take what has ended, and end what has no end."""
        for one in [*self.running]:
            is_late = time.monotonic() - one.begin > _LONG
            if is_late or one.process.poll() is not None:
                self.running.remove(one)
                self._cut(one, (f"{one.what}: no end",)) if is_late else self._keep(one)

    def _fill(self, folder: Path, drawn: random.Random) -> None:
        """Begin as many as may run."""
        while len(self.running) < AT_ONCE:
            what = drawn.choice((TESTS, drawn.choice(self.drills))) if self.drills else TESTS
            self.running.append(self._begin(what, folder, drawn))

    def _begin(self, what: str, folder: Path, drawn: random.Random) -> Soaking:
        self.begun += 1
        own = folder / str(self.begun)
        own.mkdir()
        low, high = _SWITCH
        switch = str(low * (high / low) ** drawn.random())
        files = drawn.sample(self.files, len(self.files))
        asked = ("-q", "--quick", "-p", "no:cacheprovider", *self.options, *files)
        rest = (_PYTEST, switch, *asked) if what == TESTS else (_DRILL, switch, what)
        with (own / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", *rest],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(own)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone
                preexec_fn=functools.partial(process_control.die_with_parent, os.getpid()),  # noqa: PLW1509
            )
        begin = time.monotonic()
        return Soaking(what=what, process=process, folder=own, begin=begin, state=state())

    def _disturb(self, drawn: random.Random) -> None:
        """Wait, and send a signal that must not change anything; sooner where something ends."""
        until = time.monotonic() + drawn.uniform(*_SIGNALS)
        while time.monotonic() < until:
            if any(one.process.poll() is not None for one in self.running):
                return
            time.sleep(_LOOK)
        one = drawn.choice(self.running)
        number = drawn.choice((signal.SIGWINCH, signal.SIGCONT, signal.SIGSTOP))
        # Tests stop programs themselves, which nobody must let go on.
        family = [pid for pid in process_control.descendants(one.process.pid) if not _stands(pid)]
        pid = (
            one.process.pid
            if number == signal.SIGSTOP
            else drawn.choice([one.process.pid, *family])
        )
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                try:
                    time.sleep(drawn.uniform(*_STOPPED))
                finally:
                    os.kill(pid, signal.SIGCONT)

    def _cut(self, one: Soaking, failed: tuple[str, ...] = ()) -> None:
        """End what still runs; what had failed by then counts."""
        one.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(timeout=_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait(timeout=_GRACE)
        end_left(one.folder, 0.0)
        failed += tuple(_names(one.folder)) if one.what == TESTS else ()
        if failed:
            self._write(one, failed, whole=False)

    def _keep(self, one: Soaking) -> None:
        """Count what ended by itself."""
        code = one.process.returncode
        failed = _names(one.folder) if one.what == TESTS else []
        if code and not failed:
            failed = [one.what if one.what != TESTS else f"exit code {code}"]
        failed += [f"left: {command}" for command in end_left(one.folder, _LEFT)]
        self._write(one, tuple(failed), whole=True)

    def _write(self, one: Soaking, failed: tuple[str, ...], *, whole: bool) -> None:
        now, (commit, code) = time.monotonic(), one.state
        row = SoakRow(
            seed=self.seed,
            commit=commit if one.state == state() else "",
            code=code,
            what=one.what,
            seconds=round(now - self.last, 1),
            whole=whole,
            failed=failed,
        )
        self.last = now
        with self.record.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        print(
            f"{one.what}: {now - one.begin:.0f} s, failed: {', '.join(failed) or 'none'}",
            flush=True,
        )
        if failed:
            print((one.folder / "said").read_text(errors="replace")[-_SHOWN:], flush=True)
        shutil.rmtree(one.folder, ignore_errors=True)


def _names(folder: Path) -> list[str]:
    """Return the tests that failed, as pytest names them at its end."""
    return [name[:200] for name in _FAILED.findall((folder / "said").read_text(errors="replace"))]


def _stands(pid: int) -> bool:
    return process_control.is_stopped(pid)


def end_left(folder: Path, seconds: float) -> list[str]:
    """Kill what still runs of something that ended, after so many seconds; say what it is."""
    deadline = time.monotonic() + seconds
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    said = []
    for pid in left:
        with contextlib.suppress(OSError):
            said.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:100])
    process_control.kill(left)
    return said


def state(root: Path = ROOT) -> tuple[str, str]:
    """Return the commit of a checkout and what it holds of our code; nothing where it is none's."""
    try:
        if _git(root, "status", "--porcelain", "--", *_COUNTED):
            return "", ""
        commit, *trees = _git(
            root, "rev-parse", "HEAD", *(f"HEAD:{name}" for name in _CODE)
        ).split()
    except (OSError, subprocess.SubprocessError):
        return "", ""
    return commit[:12], "-".join(tree[:12] for tree in trees)


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT)
    return done.stdout.strip()
