"""Ask two checkouts the same questions about the published evidence, and print every difference.

    nox -s checks -- same-answers --before PATH --after PATH

Each checkout has an empty store, no environments and no package index, so only published evidence
answers. Data are compared: JSON, CSV, exit codes.

`accepted.toml` lists the accepted differences, each with a sentence and a pattern. Every other
difference is printed, and so is an accepted one that does not occur any more.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.questions import Facts, Printed, Question, as_csv, gathered, questions
from checks.table import Table
from repromatrix.runner.errors import ExitCode

ACCEPTED = Path(__file__).with_name("accepted.toml")
LIMIT = 300.0
"""Seconds after which a question has no answer."""
SILENT = (2, 70, 130)
"""Exit codes that say nothing of the question: bad usage, a fault of the program, interrupted."""


IDENTITY = (
    *("case", "workaround", "release", "environment", "against", "precision", "precisions"),
    *("device", "looked-for", "range", "package", "name", "version", "culprit", "publication"),
    *("report", "type", "url"),
)
"""Keys that say which one an element of a list is; by them the elements of two lists are paired."""
_SHOWN = 160
_MISSING = object()


def compare(question: str, before: object, after: object) -> Iterator[str]:
    """Yield a line for what differs between two answers, each value with its place."""
    for at, one, other in _differing(before, after, ""):
        yield f"{question}: {at or 'answer'}: {_shown(one)} -> {_shown(other)}"


def _differing(before: object, after: object, at: str) -> Iterator[tuple[str, object, object]]:
    # As text: to Python 1, 1.0 and True are equal, and NaN is not itself.
    if _dumped(before) == _dumped(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _differing_keys(before, after, at)
    elif isinstance(before, list) and isinstance(after, list):
        one, other = _named(before), _named(after)
        yield from _differing_keys(one, other, at)
        yield from _differing_order(one, other, f"{at}/order".lstrip("/"))
    else:
        yield at, before, after


def _differing_keys(
    before: Mapping[str, object], after: Mapping[str, object], at: str
) -> Iterator[tuple[str, object, object]]:
    for key in {**before, **after}:
        place = f"{at}/{key}".lstrip("/")
        if key in before and key in after:
            yield from _differing(before[key], after[key], place)
        else:
            yield place, before.get(key, _MISSING), after.get(key, _MISSING)


def _differing_order(
    before: Mapping[str, object], after: Mapping[str, object], at: str
) -> Iterator[tuple[str, object, object]]:
    """Yield the first place at which what both have stands in another order."""
    ours = [name for name in before if name in after]
    theirs = [name for name in after if name in before]
    moved = (pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1])
    yield from ((at, *pair) for pair in itertools.islice(moved, 1))


def _named(elements: Sequence[object]) -> dict[str, object]:
    """Name each element of a list by its content, so that a missing one is a single difference."""
    counted: collections.Counter[str] = collections.Counter()
    found = {}
    for index, element in enumerate(elements):
        name = _name(element) or f"[{index}]"
        counted[name] += 1
        found[name if counted[name] == 1 else f"{name} #{counted[name]}"] = element
    return found


def _name(element: object) -> str:
    if not isinstance(element, dict):
        return _dumped(element)
    keys = [key for key in IDENTITY if isinstance(element.get(key), str | int)]
    return " ".join(f"{key}={element[key]}" for key in keys)


def _dumped(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shown(value: object) -> str:
    text = "missing" if value is _MISSING else _dumped(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class Accepted:
    """The differences that were decided, and how often each of them occurred."""

    def __init__(self, path: Path) -> None:
        """Read the file; raises ValueError for an entry without a sentence or a pattern."""
        entries = tomllib.loads(path.read_text()).get("accepted", [])
        if any(set(entry) != {"why", "pattern"} or not all(entry.values()) for entry in entries):
            msg = f"{path}: each [[accepted]] needs `why`, a sentence, and `pattern`, nothing else"
            raise ValueError(msg)
        self._patterns = [(entry["why"], re.compile(entry["pattern"])) for entry in entries]
        self.counts = dict.fromkeys((entry["why"] for entry in entries), 0)

    def holds(self, difference: str) -> bool:
        """Say whether a difference was decided: whether a pattern matches its whole line."""
        found = [why for why, pattern in self._patterns if pattern.fullmatch(difference)]
        for why in found:
            self.counts[why] += 1
        return bool(found)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A checkout with a folder of its own: its store, its site, what questions name."""

    checkout: Path
    folder: Path

    def start(self, question: Question) -> subprocess.Popen[bytes]:
        """Start a question; what it prints goes into files."""
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "repromatrix", *question.arguments],
                env=self._environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def printed(self, code: int) -> Printed:
        """Return what the last question printed."""
        out, err = ((self.folder / name).read_text(errors="replace") for name in ("out", "err"))
        return Printed(code=code, out=out, err=err, site=self.folder / "site")

    @functools.cached_property
    def _environ(self) -> dict[str, str]:
        """Nothing can be installed, and so nothing can be run."""
        ours = ("REPROMATRIX_", "PYTHON", "PIP_", "UV_")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "COLUMNS": "200",
            "PYTHONPATH": str(self.checkout),
            "REPROMATRIX_STORE": str(self.folder / "evidence.sqlite"),
            "REPROMATRIX_SITE": str(self.folder / "site"),
            "REPROMATRIX_ENVIRONMENTS": str(self.folder / "environments"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "UV_CACHE_DIR": str(self.folder / "uv"),
        }


def ask(sides: Sequence[Side], question: Question) -> list[Printed]:
    """Return what each checkout printed, a process for each at the same time."""
    running: list[subprocess.Popen[bytes]] = []
    until = time.monotonic() + LIMIT
    try:
        for side in sides:
            running.append(side.start(question))  # noqa: PERF401 - whatever started is ended
        for program in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(max(0.0, until - time.monotonic()))
    finally:
        for program in running:
            program.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(10)
            program.kill()
            program.wait()
    return [side.printed(one.returncode) for side, one in zip(sides, running, strict=True)]


def differences(question: Question, printed: Sequence[Printed]) -> Iterator[str]:
    """Yield what differs between two answers.

    Where neither checkout answers, nothing was compared: that is a difference as well.
    """
    faults = [_fault(question, one) for one in printed]
    if any(faults):
        one, other = (fault or "an answer" for fault in faults)
        yield f"{question}: answer: {one} -> {other}"
    else:
        before, after = ({"exit": one.code, "data": question.read(one)} for one in printed)
        yield from compare(str(question), before, after)


def _fault(question: Question, printed: Printed) -> str:
    """Return why there is no answer, nothing where there is one."""
    try:
        question.read(printed)
    except ValueError:
        is_answer = False
    else:
        is_answer = printed.code >= 0 and printed.code not in SILENT
    if is_answer:
        return ""
    told = [line for line in printed.err.splitlines() if line.strip()]
    return ": ".join([f"no answer, exit code {printed.code}", *told[-1:]])


def check(table: Table, options: argparse.Namespace) -> None:
    """Ask, compare, print; raises SystemExit where the checkouts cannot be asked."""
    try:
        accepted = Accepted(ACCEPTED)
        with tempfile.TemporaryDirectory() as folder:
            sides, facts = _prepared(options, Path(folder))
            asked = _chosen(questions(facts), options)
            left = _compared(sides, asked, accepted)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(ExitCode.BAD_INPUT) from error
    table.count("questions asked of two checkouts", len(asked), "values that differ", left)
    for why, count in accepted.counts.items():
        if count:
            print(f"Accepted, {count} times: {why}")
    if accepted.counts and not (options.quick or options.only):
        idle = [why for why, count in accepted.counts.items() if not count]
        for why in idle:
            print(f"Accepted, but it does not occur any more: {why}")
        table.count(
            "differences accepted", len(accepted.counts), "do not occur any more", len(idle)
        )


def _prepared(options: argparse.Namespace, folder: Path) -> tuple[list[Side], Facts]:
    """Give each checkout its folder, and read what there is to ask about from the first."""
    facts = gathered(options.before.resolve(), folder)
    sides = []
    for name in ("before", "after"):
        own = folder / "sides" / name
        for part in ("locks", "inputs", "earlier"):
            shutil.copytree(folder / part, own / part)
        sides.append(Side(checkout=getattr(options, name).resolve(), folder=own))
    results = Question(arguments=("results", "--format", "csv"), read=as_csv)
    (printed,) = ask(sides[:1], results)
    if fault := _fault(results, printed):
        raise ValueError(fault)
    return sides, dataclasses.replace(facts, cells=list(csv.DictReader(io.StringIO(printed.out))))


def _chosen(asked: Sequence[Question], options: argparse.Namespace) -> list[Question]:
    only = options.only.split(",")
    chosen = [one for one in asked if only == [""] or one.arguments[0] in only]
    if not chosen:
        msg = f"--only: no question is about {options.only!r}"
        raise ValueError(msg)
    if options.quick:
        draw = random.Random(options.seed)
        chosen = sorted(draw.sample(chosen, -(-len(chosen) // 10)), key=asked.index)
    return chosen


def _compared(sides: Sequence[Side], asked: Sequence[Question], accepted: Accepted) -> int:
    """Print what differs and was not accepted; return how many values that are."""
    left, began = 0, time.monotonic()
    for number, question in enumerate(asked, 1):
        for difference in differences(question, ask(sides, question)):
            if not accepted.holds(difference):
                print(difference, flush=True)
                left += 1
        if number % 25 == 0 or number == len(asked):
            minutes = (time.monotonic() - began) / 60
            told = f"{number} of {len(asked)} questions, {left} differences, {minutes:.1f} min"
            print(told, file=sys.stderr, flush=True)
    return left
