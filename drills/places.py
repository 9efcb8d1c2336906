"""Odd surroundings: users, paths, homes, masks, locales, clocks, file systems; outcomes stay."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from drills.checkout import expected, made, made_wheels
from drills.small_disk import missing, namespace
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drills.checkout import Checkout
    from drills.tally import Tally

CASES = 4
TESTS = (
    *("tests/model", "tests/judging", "tests/test_files.py", "tests/test_tempdirs.py"),
    *("tests/test_subprocesses.py", "tests/test_git.py", "tests/evidence/test_store.py"),
    *("tests/audit/test_inputs.py", "tests/cli/test_merge.py"),
    *("tests/bisect/test_repository.py", "tests/worker/test_cleanup.py"),
    *("tests/worker/test_overlay.py", "tests/execution/test_cgroup.py"),
)
"""What touches files, programs, locks and texts, of all that is quick."""
_ODD = "with space/and 'quotes\" ünï漢字 $HOME %41 #1"
_LONG = "/".join(["a-very-long-name-of-a-folder-" * 4] * 3)
_MASK = ("sh", "-c", 'umask 077; exec "$@"', "sh")
# No right of root is left, and nothing is anybody else's: what we may read stays readable.
_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_READ_ONLY = 'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD"'
_READ_ONLY_HOME = 'mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME"'
_OWN_TMPDIR = 'mkdir "$HOME/.tmp"; export TMPDIR="$HOME/.tmp" && mount -t tmpfs own "$TMPDIR"'
# With nothing in it but what every container has.
_NO_SHM = """
mkdir -p "$HOME/.dev" && mount -t tmpfs -o mode=755 dev "$HOME/.dev" || exit 70
for name in null zero full random urandom tty; do
    : > "$HOME/.dev/$name" && mount --bind "/dev/$name" "$HOME/.dev/$name" || exit 70
done
ln -s /proc/self/fd "$HOME/.dev/fd" && mount --rbind "$HOME/.dev" /dev"""
_PYTEST = (
    *("-q", "--quick", "-p", "no:cacheprovider"),
    *(f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={ROOT}"),
)
_COUNTED = re.compile(r"(\d+) (passed|failed|errors?)\b")
_LATIN = "en_US.ISO-8859-1"
_CLOCK = """
import datetime, itertools, runpy, sys, time
real, calls = time.time_ns, itertools.count()
def told():
    return real() - {back} * 10**9 - next(calls) * {step} * 10**9
time.time_ns = told
time.time = lambda: told() / 10**9
gmtime, localtime = time.gmtime, time.localtime
time.gmtime = lambda seconds=None: gmtime(told() / 10**9 if seconds is None else seconds)
time.localtime = lambda seconds=None: localtime(told() / 10**9 if seconds is None else seconds)
sys.argv = ["runner", *sys.argv[1:]]
runpy.run_module("repromatrix", run_name="__main__", alter_sys=True)
"""


def _mounted(how: str) -> tuple[str, ...]:
    """Return the command before a command that mounts something where nobody else sees it."""
    return (*namespace(), "sh", "-c", f'{how} && exec "$@"', "sh")


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Where and how a run takes place; `elsewhere` moves all that it writes out of the tree."""

    what: str
    path: str = "checkout"
    variables: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """The command before the command."""
    clock: tuple[int, int] | None = None
    """Seconds by which the clock stands back, and by which it is set back at every look."""
    elsewhere: bool = False

    def missing(self) -> str:
        """Say why they cannot be had here; nothing where they can."""
        if self.before[:1] == ("unshare",) and missing():
            return missing()
        if self.variables.get("LC_ALL") == _LATIN and not (_locales() / _LATIN).exists():
            return "localedef has no such locale"
        return ""


ALL = (
    Surroundings(what="a path with spaces, quotes and other letters", path=_ODD),
    Surroundings(what="a path of 400 letters", path=_LONG),
    Surroundings(what="a home that does not exist", variables={"HOME": "/nonexistent"}),
    Surroundings(what="no home", variables={"HOME": ""}),
    Surroundings(what="umask 077", before=_MASK),
    Surroundings(what="a time zone with quarters", variables={"TZ": "Asia/Kathmandu"}),
    Surroundings(what="a time zone that does not exist", variables={"TZ": "No/Where"}),
    Surroundings(what="the locale C", variables={"LC_ALL": "C"}),
    Surroundings(what="the locale C, odd path", variables={"LC_ALL": "C"}, path=_ODD),
    Surroundings(what="a locale that does not exist", variables={"LC_ALL": "xx_YY.KOI8-R"}),
    Surroundings(
        what="ASCII alone",
        variables={"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    Surroundings(
        what="ASCII alone, odd path",
        variables={"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        path=_ODD,
    ),
    Surroundings(what="a locale of Latin letters", variables={"LC_ALL": _LATIN}),
    Surroundings(
        what="a locale of Latin letters, odd path", variables={"LC_ALL": _LATIN}, path=_ODD
    ),
    Surroundings(what="an ordinary user", before=_USER),
    Surroundings(
        what="a read-only home", variables={"UV_CACHE_DIR": ""}, before=_mounted(_READ_ONLY_HOME)
    ),
    Surroundings(what="temporary files on another file system", before=_mounted(_OWN_TMPDIR)),
    Surroundings(what="no /dev/shm", before=_mounted(_NO_SHM)),
    Surroundings(what="a clock two years back", clock=(63_072_000, 0)),
    Surroundings(what="a clock that is set back all the time", clock=(0, 3600)),
    Surroundings(what="a read-only tree", before=_mounted(_READ_ONLY), elsewhere=True),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What became of two runs, the second of everything again."""

    what: str
    changed: int
    """Cells with another outcome than in ordinary surroundings."""
    older: int
    """Cells for which an earlier run stands, and those that took no time or too much."""
    undone: int
    """Commands that did not end as they do elsewhere."""


def drill(tally: Tally) -> None:
    """Try all; what cannot be had here is left out, and said so."""
    count(tally, tried(ALL))
    # Neither another path nor another clock is told to a test.
    asked = [one for one in ALL if one.path == "checkout" and not (one.clock or one.elsewhere)]
    told = [quick(one) for one in asked if not one.missing()]
    passed, failed = (sum(counts) for counts in zip(*told, strict=True))
    times = passed + failed
    tally.count("quick tests in odd surroundings", times, "failed", failed, f"{len(told)} of them")


def quick(one: Surroundings, *tests: str) -> tuple[int, int]:
    """Run quick tests in these surroundings; return how many passed and how many did not."""
    with tempfile.TemporaryDirectory(prefix="drill-places-") as home:
        named = {"HOME": home, "LOCPATH": str(_locales()), **one.variables, "PYTHONUTF8": "1"}
        # After it a folder is called that belongs to who we are outside.
        named["LOGNAME"] = f"drill-{os.getuid()}"
        environ = {name: value for name, value in {**os.environ, **named}.items() if value}
        command = [*one.before, sys.executable, "-m", "pytest", *_PYTEST, *(tests or TESTS)]
        done = finish(command, environ=environ, folder=ROOT, seconds=1800)
    if done.code:
        print(one.what, done.out[-2000:], done.err[-600:], flush=True)
    found = {kind: int(number) for number, kind in _COUNTED.findall(done.out)}
    failed = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
    return found.get("passed", 0), failed or int(done.code != 0)


@functools.cache
def _locales() -> Path:
    """Return a folder that holds the locale of Latin letters, or nothing where none can be made."""
    folder = Path(tempfile.mkdtemp(prefix="drill-locales-"))
    atexit.register(shutil.rmtree, folder)
    finish(["localedef", "-i", "en_US", "-f", "ISO-8859-1", folder / _LATIN])
    return folder


def count(tally: Tally, fates: Sequence[Fate]) -> None:
    """Count what went wrong."""
    number = len(fates)
    note = "; ".join(f"without {one.what}: {one.missing()}" for one in ALL if one.missing())
    changed = sum(one.changed for one in fates)
    tally.count("odd surroundings", number, "outcomes changed", changed, note)
    older = sum(one.older for one in fates)
    tally.count("odd surroundings", number, "cells without the later run's answer", older)
    undone = sum(one.undone for one in fates)
    tally.count("odd surroundings", number, "commands that ended otherwise", undone)


def tried(surroundings: Sequence[Surroundings]) -> list[Fate]:
    """Run in each of these surroundings."""
    possible = [one for one in surroundings if not one.missing()]
    folder = Path(tempfile.mkdtemp(prefix="drill-places-"))
    try:
        wheels = made_wheels(folder / "wheels")
        fates = []
        for number, one in enumerate(possible):
            root = folder / str(number)
            checkout = made(root / one.path, wheels, CASES)
            fate = _fate(checkout, one, root / "elsewhere")
            shutil.rmtree(root)
            if fate.changed or fate.older or fate.undone:
                print(fate, flush=True)
            fates.append(fate)
        return fates
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fate(checkout: Checkout, one: Surroundings, elsewhere: Path) -> Fate:
    store = elsewhere / "evidence.sqlite" if one.elsewhere else checkout.store
    measure = ("matrix", "--release", "1.0.0,1.1.0")
    # What is set back was right before.
    told = (checkout, one, elsewhere, *measure)
    first = checkout.run(*measure).code if one.clock else _run(*told)
    before = _rows(store)
    again = _run(checkout, one, elsewhere, *measure, "--rerun")
    after = _rows(store)
    outcomes = {cell: outcome for cell, (outcome, _, _) in after.items()}
    ends = [first, again]
    ends += [_run(checkout, one, elsewhere, *asked) for asked in (("results",), ("report",))]
    if not one.elsewhere:
        ends.append(_run(checkout, one, elsewhere, "publish"))
    return Fate(
        what=one.what,
        changed=sum(outcomes.get(cell) != was for cell, was in expected(CASES).items()),
        older=sum(
            before.get(cell, ("", "", 0.0))[1] == run or not 0 < seconds < 60
            for cell, (_, run, seconds) in after.items()
        ),
        undone=sum(code != 0 for code in ends),
    )


def _run(checkout: Checkout, one: Surroundings, elsewhere: Path, *arguments: str) -> int | None:
    """Return how a command ended in these surroundings."""
    command = checkout.command(*arguments)
    if one.clock:
        back, step = one.clock
        command = [command[0], "-c", _CLOCK.format(back=back, step=step), *arguments]
    moved = {
        "REPROMATRIX_STORE": str(elsewhere / "evidence.sqlite"),
        "REPROMATRIX_SITE": str(elsewhere / "site"),
        "REPROMATRIX_ENVIRONMENTS": str(elsewhere / "environments"),
        "UV_CACHE_DIR": str(elsewhere / "cache"),
    }
    named = {**(moved if one.elsewhere else {}), "LOCPATH": str(_locales())}
    environ = checkout.environ(**named, **one.variables)
    done = finish([*one.before, *command], environ=environ, folder=checkout.root, seconds=300)
    if done.code:
        print(json.dumps([one.what, arguments, done.err[-600:]]), flush=True)
    return done.code


def _rows(store: Path) -> dict[tuple[str, str, str], tuple[str, str, float]]:
    """Return outcome, run and seconds of every stored cell."""
    if not store.exists():
        return {}
    with closing(sqlite3.connect(store)) as database:
        found = database.execute(
            "SELECT case_name, environment, precision, outcome, run, seconds FROM cells"
        )
        return {(a, b, c): (outcome, run, seconds) for a, b, c, outcome, run, seconds in found}
