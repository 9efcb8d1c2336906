"""Whatever reads a foreign text is given changed ones, by hypothesis and, guided by what they
reach, by atheris: each ends in a value or in an error that says where, within its time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import subprocess
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given

from drills import queries
from drills.foreign import targets
from drills.mutating import mutated, only_drawn
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from drills.foreign import Target
    from drills.tally import Tally

EXAMPLES = 1500
"""Inputs of hypothesis for each reader; REPRO_EXAMPLES and REPRO_SEED are another number, seed."""
SECONDS = 30
"""How long atheris works at each reader; REPRO_SECONDS is another time."""
LONGEST = 5.0
"""Seconds of the processor that a reader may take for an input."""
_PYTHON = ROOT / ".nox" / "fuzz" / "bin" / "python"
_RUN = re.compile(r"stat::number_of_executed_units: +(\d+)")
_FOUND = re.compile(r"(?m)^TROUBLE: (.*)$")
HANG = "hangs"

Found = dict[str, bytes]
"""What went wrong, with the shortest input that showed it."""


class TooLongError(Exception):
    """A reader took longer than it may."""


def trouble(target: Target, content: bytes) -> str:
    """Say what is wrong with how an input is read; nothing where it is as it should be."""
    try:
        with _bounded():
            target.read(content)
    except RunnerError as error:
        return _unaddressed(error)
    except TooLongError:
        return HANG
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        frames = traceback.extract_tb(error.__traceback__)
        ours = [one for one in frames if f"{ROOT}/runner/" in one.filename]
        at = f"{ours[-1].filename.removeprefix(f'{ROOT}/')} {ours[-1].name}" if ours else "a drill"
        return f"{type(error).__name__} in {at}"
    return ""


def _unaddressed(error: RunnerError) -> str:
    faults = error.faults
    whole = all(one.where and one.what for one in faults)
    return "" if faults and whole and str(error).strip() else f"no address: {error}"[:100]


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    # What sits in C hears no signal: the drill itself ends, and says where.
    faulthandler.dump_traceback_later(60 * LONGEST, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)


def fuzzed(target: Target, examples: int, number: int) -> tuple[int, Found]:
    """Give a reader changed inputs; return how many it was given, and what went wrong."""
    tried = 0
    found: Found = {}

    @only_drawn(number, examples)
    @given(mutated(target.seeds))
    def run(content: bytes) -> None:
        nonlocal tried
        tried += 1
        wrong = trouble(target, content)
        if wrong and len(content) < len(found.get(wrong, content + b" ")):
            found[wrong] = content

    for content in target.seeds:
        wrong = trouble(target, content)
        if wrong:
            found[wrong] = content
    run()
    return tried, found


def guided(target: Target, seconds: int) -> tuple[int, list[str]]:
    """Let atheris work at a reader; return how many inputs it ran, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as own:
        for number, content in enumerate(target.seeds):
            (Path(folder) / f"seed-{number}").write_bytes(content)
        command = [
            *(str(_PYTHON), "-m", "drills.guided", target.name, folder),
            *(f"-max_total_time={seconds}", f"-timeout={int(10 * LONGEST)}", "-rss_limit_mb=4096"),
            *("-print_final_stats=1", "-max_len=65536", f"-artifact_prefix={folder}/"),
        ]
        environ = os.environ | {"TMPDIR": own}  # it ends without tidying up
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
    ran = _RUN.search(done.stderr)
    found = sorted(set(_FOUND.findall(done.stderr)))
    if done.returncode:
        found.append(f"ended with {done.returncode}: {done.stderr[-300:]}")
    return int(ran[1]) if ran else 0, found


def drill(tally: Tally) -> None:
    """Fuzz every reader, with atheris too where it is installed."""
    number = int(os.environ.get("REPRO_SEED", time.time_ns()))
    examples = int(os.environ.get("REPRO_EXAMPLES", EXAMPLES))
    results = {one.name: fuzzed(one, examples, number) for one in targets()}
    tried = sum(ran for ran, _ in results.values())
    told = [f"{name}: {wrong}" for name, (_, found) in results.items() for wrong in found]
    readers = f"{len(results)} readers, REPRO_SEED={number}"
    _count(tally, "inputs of hypothesis", tried, told, readers)
    _queries(tally, number, 10 * examples)
    if not _has_atheris():
        print("there is no atheris in .nox/fuzz: no input is found by what it reaches")
        return
    seconds = int(os.environ.get("REPRO_SECONDS", SECONDS))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # each waits for a process
        reached = dict(pool.map(lambda one: (one.name, guided(one, seconds)), targets()))
    idle = [name for name, (ran, _) in reached.items() if not ran]
    told = [f"{name}: {wrong}" for name, (_, found) in reached.items() for wrong in found]
    told += [f"{name}: nothing was run" for name in idle]
    tried = sum(ran for ran, _ in reached.values())
    _count(tally, "inputs of atheris", tried, told, f"{seconds} s for each reader")


def _queries(tally: Tally, number: int, examples: int) -> None:
    if queries.missing():
        print(f"no query was asked: {queries.missing()}")
        return
    drawn = queries.texts(number, examples)
    told = [f"{said} ({query[:60]!r})" for query, said in queries.asked(drawn)]
    _count(tally, "queries of the page", len(drawn), told, "in Chromium")


def _has_atheris() -> bool:
    asked = [str(_PYTHON), "-c", "import atheris"]
    return (
        _PYTHON.exists() and not subprocess.run(asked, capture_output=True, check=False).returncode
    )


def _count(tally: Tally, what: str, tried: int, told: list[str], note: str) -> None:
    hangs = [one for one in told if HANG in one]
    errors = [one for one in told if one not in hangs]
    tally.count(what, tried, "unaddressed errors", len(errors), "; ".join([note, *errors]))
    tally.count(what, tried, "hangs", len(hangs), "; ".join(hangs))
