"""Give changed inputs to every reader of foreign text, and queries to the page.

Each must return a value or an error with its place, within its time.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import chromium
import queries
import small_site
from hypothesis import given
from mutating import mutated, only_drawn
from readers import Target, targets

from checks.table import Table
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.paths import ROOT

EXAMPLES = 1500
"""Inputs for each reader."""
LONGEST = 5.0
"""Seconds of the processor that a reader may take for an input."""
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
        whole = all(fault.where and fault.what for fault in error.faults)
        told = error.faults and whole and str(error).strip()
        return "" if told else f"no address: {error}"[:100]
    except TooLongError:
        return HANG
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        frames = traceback.extract_tb(error.__traceback__)
        ours = [one for one in frames if f"{ROOT}/runner/" in one.filename]
        at = f"{ours[-1].filename.removeprefix(f'{ROOT}/')} {ours[-1].name}" if ours else "a check"
        return f"{type(error).__name__} in {at}"
    return ""


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    # What sits in C hears no signal: the check itself ends, and says where.
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


def check(table: Table, options: argparse.Namespace) -> None:
    """Fuzz every reader, and the query of the page."""
    seed, examples = options.seed or time.time_ns(), options.count or EXAMPLES
    results = {one.name: fuzzed(one, examples, seed) for one in targets()}
    tried = sum(ran for ran, _ in results.values())
    told = [f"{name}: {wrong}" for name, (_, found) in results.items() for wrong in found]
    wrong = "unaddressed errors or hangs"
    note = "; ".join([f"{len(results)} readers, seed {seed}", *told])
    table.count("changed inputs", tried, wrong, len(told), note)
    if lacking := chromium.missing():
        print(f"no query was asked: {lacking}")
        return
    drawn = queries.texts(seed, 10 * examples)
    with tempfile.TemporaryDirectory() as folder, chromium.opened() as browser:
        small_site.draw(Path(folder))
        found = queries.asked_of(browser, Path(folder), drawn)
    told = [f"{said} ({query[:60]!r})" for query, said in found]
    note = "; ".join(["in Chromium", *told])
    table.count("queries of the page", len(drawn), wrong, len(told), note)
