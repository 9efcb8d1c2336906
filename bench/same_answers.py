"""Ask two checkouts the same questions of the published evidence, and print every difference.

    python bench/same_answers.py --before PATH --after PATH

Run it with an interpreter that both checkouts can use, such as `.nox/tests/bin/python`.
Each checkout has an empty store of its own, no environments and no package index, so that nothing
is measured and only published evidence answers. What is compared is data: JSON, CSV, exit codes.

`accepted.toml` lists the differences that were decided, each with a sentence and a pattern. Every
other difference is printed, and so is an accepted one that does not occur any more.

Exit codes: 0 the answers are the same; 1 something differs; 2 bad usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import collections
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
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from questions import Printed, Question, as_csv, gathered, questions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from questions import Facts

HERE = Path(__file__).parent
LIMIT = 300.0
"""Seconds after which a question has no answer."""
MODULES = ("repromatrix", "runner")
"""What `python -m` starts in a checkout, newest generation first."""
SPELLINGS = {"--evidence-only": ("--evidence-only", "--plan")}
"""Options that were renamed: how they are called in each generation, newest first."""
SILENT = (2, 70, 130)
"""Exit codes that say nothing of the question: bad usage, a fault of the program, interrupted."""


# Answers compared.

IDENTITY = (
    *("case", "workaround", "release", "environment", "against", "precision", "precisions"),
    *("device", "looked-for", "range", "package", "name", "version", "culprit", "publication"),
    *("report", "type", "url"),
)
"""Keys that say which one an element of a list is; by them the elements of two lists are paired."""
_SHOWN = 160
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One value that is not the same."""

    question: str
    at: str
    before: str
    after: str

    def __str__(self) -> str:
        """Return it as a line, which is what a pattern has to match."""
        return f"{self.question}: {self.at or 'answer'}: {self.before} -> {self.after}"


def compare(question: str, before: object, after: object) -> Iterator[Difference]:
    """Yield what differs between two answers, each value with its place."""
    for at, one, other in _differing(before, after, ""):
        yield Difference(question=question, at=at, before=_shown(one), after=_shown(other))


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
    """Name each element of a list by what it is, so that a missing one is told as one."""
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

    def holds(self, difference: Difference) -> bool:
        """Say whether a difference was decided: whether a pattern matches its whole line."""
        found = [why for why, pattern in self._patterns if pattern.fullmatch(str(difference))]
        for why in found:
            self.counts[why] += 1
        return bool(found)


# The checkouts.


def module_of(checkout: Path) -> str:
    """Return what `python -m` starts in a checkout; raises ValueError where there is nothing."""
    for name in MODULES:
        code = f"import importlib.util as u; print(u.find_spec('{name}.__main__').origin)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": str(checkout)},
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and Path(done.stdout.strip()).is_relative_to(checkout):
            return name
    msg = f"{checkout}: no checkout, it has none of {', '.join(MODULES)}"
    raise ValueError(msg)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A checkout with a folder of its own: its store, its site, what questions name."""

    checkout: Path
    folder: Path

    @functools.cached_property
    def module(self) -> str:
        """What `python -m` starts; raises ValueError where there is nothing."""
        return module_of(self.checkout)

    def start(self, question: Question) -> subprocess.Popen[bytes]:
        """Start a question in the spelling of this checkout; what it prints goes into files."""
        command = question.arguments[0]
        words = [
            self._spelling(command, word) if word in SPELLINGS else word
            for word in question.arguments
        ]
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", self.module, *words],
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

    @functools.cache  # noqa: B019 - there are two
    def _spelling(self, command: str, option: str) -> str:
        told = subprocess.run(
            [sys.executable, "-m", self.module, command, "--help"],
            env=self._environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for name in SPELLINGS[option]:
            if re.search(rf"(?<![\w-]){name}(?![\w-])", told):
                return name
        msg = f"{self.checkout}: {command} has none of {', '.join(SPELLINGS[option])}"
        raise ValueError(msg)


def ask(sides: Sequence[Side], question: Question) -> list[Printed]:
    """Return what each checkout printed, a process for each at the same time."""
    running: list[subprocess.Popen[bytes]] = []
    until = time.monotonic() + LIMIT
    try:
        for side in sides:
            running.append(side.start(question))  # noqa: PERF401 - whatever started is ended
        for program in running:
            _wait(program, max(0.0, until - time.monotonic()))
    finally:
        for program in running:
            program.terminate()
            _wait(program, 10)
            program.kill()
            program.wait()
    return [side.printed(one.returncode) for side, one in zip(sides, running, strict=True)]


def _wait(program: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        program.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def differences(question: Question, printed: Sequence[Printed]) -> Iterator[Difference]:
    """Yield what differs between two answers.

    Where neither checkout answers, nothing was compared: that is a difference as well.
    """
    faults = [_fault(question, one) for one in printed]
    if any(faults):
        one, other = (fault or "an answer" for fault in faults)
        yield Difference(question=str(question), at="", before=one, after=other)
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


# The program.


def main(words: Sequence[str] | None = None) -> int:
    """Ask, compare, print; return the exit code."""
    options = _options(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        accepted = Accepted(options.accepted)
        with tempfile.TemporaryDirectory() as folder:
            sides, facts = _prepared(options, Path(folder))
            left = _compared(sides, _chosen(questions(facts), options), accepted)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted: what is printed is not all.", file=sys.stderr)
        return 130
    return _summed_up(left, accepted, whole=not (options.quick or options.only))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--before", type=Path, required=True, help="the checkout as it was")
    parser.add_argument("--after", type=Path, required=True, help="the checkout as it is")
    parser.add_argument(
        "--accepted", type=Path, default=HERE / "accepted.toml", help="the decided differences"
    )
    parser.add_argument("--quick", action="store_true", help="ask a tenth, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="which tenth --quick draws")
    parser.add_argument("--only", default="", metavar="COMMAND", help="ask one command alone")
    return parser.parse_args(words)


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
    chosen = [one for one in asked if options.only in {"", one.arguments[0]}]
    if not chosen:
        msg = f"--only: no question is about {options.only!r}"
        raise ValueError(msg)
    if options.quick:
        draw = random.Random(options.seed)  # noqa: S311 - a sample, not a secret
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
        live, minutes = sys.stderr.isatty(), (time.monotonic() - began) / 60
        if live or number % 25 == 0 or number == len(asked):
            told = f"{number} of {len(asked)} questions, {left} differences, {minutes:.1f} min"
            print(told, end="\r" if live else "\n", file=sys.stderr, flush=True)
    return left


def _summed_up(left: int, accepted: Accepted, *, whole: bool) -> int:
    for why, count in accepted.counts.items():
        if count:
            print(f"Accepted, {count} times: {why}")
    idle = [why for why, count in accepted.counts.items() if whole and not count]
    for why in idle:
        print(f"Accepted, but it does not occur any more: {why}")
    print(f"{left} differences." if left else "The answers are the same.")
    return 1 if left or idle else 0


if __name__ == "__main__":
    sys.exit(main())
