"""Mutants of `runner/` and `reports/`, drawn at random, each against the tests of its room: the
quick ones, the others that run by default, then those that only `--whole` runs. The first failure
ends it. One that was noticed before, as the record says, must be noticed again.

mutmut says what can be changed. A mutant runs in a copy of the checkout and in a sandbox of its
own, since it may delete or kill whatever it reaches. It has no network: a slow test that fails
there without a mutant, because it would build something, is left out.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
import queue
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

from repromatrix.runner.execution import sandbox
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.subprocesses import Finished, end_all, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from drills.tally import Tally

SEED, COUNT, MINUTES = 7, 100, 90
RECORD = Path(__file__).with_name("mutants.json")
_T = TypeVar("_T")
LOOSE = "runner"
"""The room of the modules beside the rooms of `runner/`."""
_TWICE = 2
"""A mutant has this many times as long as the tests take without one, and a little."""
_LITTLE = 20.0
_LONG = 600.0
_MEMORY = 8 << 30
_LEFT_OUT = shutil.ignore_patterns(".git", ".nox", ".repromatrix", ".*_cache", "__pycache__")
_PYTEST = ("-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider")
_FIXED = ("--hypothesis-seed=0",)
_RED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_AT_MOST = 0.05
"""The share of mutants that `--whole` alone may notice."""
_PASSED, _FAILED, _NO_TESTS = 0, 1, 5
_ENDED = {_PASSED, _FAILED, _NO_TESTS}
_SKIPPED = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
"""What is not executed, or says nothing of what a program does."""


class Fate(StrEnum):
    """What became of a mutant."""

    NOTICED = "noticed"
    BY_WHOLE = "noticed by --whole alone"
    SURVIVED = "survived"


class Part(StrEnum):
    """A part of the tests of a room; its value names it to pytest."""

    QUICK = "--quick"
    SLOW = "-m builds or browser or cluster or door"
    WHOLE = "--whole -m whole"

    @property
    def options(self) -> list[str]:
        """Return how pytest is told to run it."""
        flags, mark, names = self.value.partition("-m ")
        return [*flags.split(), *([mark.strip(), names] if mark else [])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One small change of one file."""

    path: str
    operator: str
    before: str
    after: str
    same: int
    """How many times the same lines stand above it in the file."""
    text: str = field(repr=False)
    known_as: str = ""
    """Its name in the record, where its lines have moved to another file since."""

    @property
    def name(self) -> str:
        """The same as long as its lines are, wherever they move in the file."""
        if self.known_as:
            return self.known_as
        parts = (self.path, self.operator, self.before, self.after, self.same)
        return json.dumps(parts, ensure_ascii=False)

    @property
    def room(self) -> str:
        """Return the folder of `tests/` that is about its file."""
        return room(self.path)


def room(path: str) -> str:
    """Return the folder of `tests/` that is about a file."""
    top, *inner, _ = Path(path).parts
    return top if top == "reports" else next(iter(inner), LOOSE)


class _Changes(cst.CSTVisitor):
    """Collects what each operator would put in the place of which node."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[tuple[cst.CSTNode, cst.CSTNode]]] = {}

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _SKIPPED) or _is_for_types(node):
            return False
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                pairs = [(node, other) for other in operator(node)]
                self.found.setdefault(operator.__name__, []).extend(pairs)
        return True


def _is_for_types(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.If)
        and isinstance(node.test, cst.Name)
        and node.test.value == "TYPE_CHECKING"
    )


def drawn(root: Path, seed: int, count: int) -> list[Mutant]:
    """Draw different mutants: a file by its length, then an operator, then one of its changes."""
    rng = random.Random(seed)
    files = sources(root)
    lengths = [len(path.read_text().splitlines()) for path in files]
    found: dict[str, Mutant] = {}
    for _ in range(50 * count):  # a file may be without anything to change
        path = rng.choices(files, lengths)[0]
        one = _drawn_of(path.read_text(), path.relative_to(root).as_posix(), rng)
        if one:
            found[one.name] = one
        if len(found) == count:
            break
    return list(found.values())


def sources(root: Path) -> list[Path]:
    """Return the files that are changed, in an order that is the same everywhere."""
    return sorted(
        path
        for top in ("runner", "reports")
        for path in (root / top).rglob("*.py")
        if not _is_drawn_by_the_site(path.relative_to(root))
    )


def _is_drawn_by_the_site(path: Path) -> bool:
    """Say whether it is a case that a rendered site holds for download."""
    return path.parts[:2] == ("reports", "site")


def _drawn_of(text: str, path: str, rng: random.Random) -> Mutant | None:
    module = cst.parse_module(text)
    changes = _Changes()
    module.visit(changes)
    operators = sorted(name for name, pairs in changes.found.items() if pairs)
    if not operators:
        return None
    operator = rng.choice(operators)
    old, new = rng.choice(changes.found[operator])
    changed = module.deep_replace(old, new)
    assert isinstance(changed, cst.Module)
    return mutant(path, operator.removeprefix("operator_"), text, changed.code)


def mutant(path: str, operator: str, text: str, changed: str) -> Mutant | None:
    """Return the change of a text to another one; None where that means the same, or nothing."""
    try:
        if ast.dump(ast.parse(text)) == ast.dump(ast.parse(changed)):
            return None
        compile(changed, path, "exec")
    except SyntaxError:
        return None
    old, new = text.splitlines(), changed.splitlines()
    both = zip(old, new, strict=False)
    first = next(
        (n for n, (one, other) in enumerate(both) if one != other), min(len(old), len(new))
    )
    while old[first + 1 :] and new[first + 1 :] and old[-1] == new[-1]:
        del old[-1], new[-1]
    lines = [line.strip() for line in old[first:]]
    above = [line.strip() for line in old[:first]]
    return Mutant(
        path=path,
        operator=operator,
        before="\n".join(lines),
        after="\n".join(line.strip() for line in new[first:]),
        same=sum(above[n : n + len(lines)] == lines for n in range(len(above))),
        text=changed,
    )


def remembered(root: Path, record: Mapping[str, str]) -> list[Mutant]:
    """Return the mutants that were noticed and whose lines still stand, be it in another file."""
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in sources(root)}
    found = []
    for name in sorted(name for name, fate in record.items() if fate in _KNOWN):
        path, operator, before, after, same = json.loads(name)
        there = [(path, same)] if path in texts else [(other, 0) for other in texts]
        changed = ((other, _replaced(texts[other], before, after, nth)) for other, nth in there)
        [*known] = ((other, text) for other, text in changed if text)
        if len(known) == 1:  # lines that stand in several files now are nobody's
            other, text = known[0]
            made = mutant(other, operator, texts[other], text)
            found += [dataclasses.replace(made, known_as=name)] if made else []
    return found


def _replaced(text: str, before: str, after: str, nth: int) -> str:
    """Put lines in the place of others, as deep as those stand; empty where they do not."""
    lines, old, new = text.splitlines(), before.split("\n"), after.split("\n")
    bare = [line.strip() for line in lines]
    places = [n for n in range(len(bare)) if bare[n : n + len(old)] == old]
    if nth >= len(places):
        return ""
    first = places[nth]
    deep = [line[: len(line) - len(line.lstrip())] for line in lines[first : first + len(old)]]
    deep += [deep[-1]] * (len(new) - len(old))
    put = [indent + line for indent, line in zip(deep, new, strict=False)]
    return "\n".join([*lines[:first], *put, *lines[first + len(old) :], ""])


class StoppedError(Exception):
    """The drill is interrupted."""


@dataclass(kw_only=True)
class Trials:
    """Copies of a checkout, in each of which one mutant at a time is tried."""

    root: Path
    seconds: float = _LONG
    """How long a part of a room may take without a mutant; one that takes longer is left out."""
    free: queue.Queue[Path] = field(default_factory=queue.Queue)
    limits: dict[tuple[str, Part], float] = field(default_factory=dict)
    """How long a part of a room may take with one; none where it cannot be run."""
    red: dict[tuple[str, Part], list[str]] = field(default_factory=dict)
    """The tests that fail without a mutant."""
    learning: dict[tuple[str, Part], threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )
    written: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the drill is interrupted: what was killed says nothing of a mutant."""

    @contextlib.contextmanager
    def copies(self, count: int) -> Iterator[None]:
        """Make copies, and remove them."""
        with tempfile.TemporaryDirectory() as folder:
            for number in range(count):
                there = Path(folder) / str(number)
                shutil.copytree(self.root, there, ignore=_LEFT_OUT, symlinks=True)
                self.free.put(there)
            yield

    def red_rooms(self, rooms: Iterable[str]) -> list[str]:
        """Return the rooms whose quick tests fail without a mutant, or do not end."""
        names = list(rooms)
        self.side_by_side(lambda name: self._learned(name, Part.QUICK), names)
        return [
            name
            for name in names
            if self.red[name, Part.QUICK] or (name, Part.QUICK) not in self.limits
        ]

    def side_by_side(self, tried: Callable[[_T], None], items: Iterable[_T]) -> None:
        """Try items, as many at once as there are copies; an interruption ends all that runs."""
        with ThreadPoolExecutor(self.free.qsize()) as pool:
            futures = [pool.submit(tried, item) for item in items]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self.stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                while not all(future.done() for future in futures):
                    end_all()
                    time.sleep(0.1)
                raise

    def fate(self, one: Mutant) -> Fate:
        """Run the tests of its room against a mutant, part by part."""
        for part in Part:
            self._learned(one.room, part)
            if (one.room, part) in self.limits and self._notices(one, part):
                return Fate.BY_WHOLE if part is Part.WHOLE else Fate.NOTICED
        return Fate.SURVIVED

    def _learned(self, where: str, part: Part) -> None:
        """Run a part of a room without a mutant, once."""
        with self.learning[where, part]:
            if (where, part) in self.red:
                return
            begin = time.monotonic()
            done = self._run(where, part, self.seconds)
            lasted = time.monotonic() - begin
            self.red[where, part] = sorted({*_RED.findall(done.out)})
            if done.code in _ENDED:
                self.limits[where, part] = _TWICE * lasted + _LITTLE

    def _notices(self, one: Mutant, part: Part) -> bool:
        seconds = self.limits[one.room, part]
        return self._run(one.room, part, seconds, one).code not in {_PASSED, _NO_TESTS}

    def _run(self, where: str, part: Part, seconds: float, one: Mutant | None = None) -> Finished:
        copy = self.free.get()
        without = [f"--deselect={name}" for name in self.red.get((where, part), ())]
        how = [*_PYTEST, *_FIXED, *part.options, *without, *(["-x"] if one else [])]
        try:
            with self._changed(copy, one), tempfile.TemporaryDirectory(dir=copy.parent) as own:
                command = [*_walls(copy, own), sys.executable, *how, *_tests(copy, where)]
                done = finish(command, environ=_environ(), folder=copy, seconds=seconds)
            if self.stopped.is_set():
                raise StoppedError
            return done
        finally:
            self.free.put(copy)

    @contextlib.contextmanager
    def _changed(self, copy: Path, one: Mutant | None) -> Iterator[None]:
        if one is None:
            yield
            return
        path = copy / one.path
        before = path.stat()
        text = path.read_text()
        # Python knows compiled files by time and size: no two texts may have the same of both.
        self.written += 1
        path.write_text(one.text)
        os.utime(path, (before.st_mtime + self.written, before.st_mtime + self.written))
        try:
            yield
        finally:
            path.write_text(text)
            os.utime(path, (before.st_mtime, before.st_mtime))


def _walls(copy: Path, own: str) -> list[str]:
    """Let only the copy and a folder of its own be written, and let nothing outside be killed."""
    binds = [("--ro-bind", sys.prefix), ("--ro-bind", sys.base_prefix), ("--bind", str(copy))]
    return [
        *("prlimit", f"--as={_MEMORY}"),
        *("bwrap", "--unshare-pid", "--unshare-net", "--die-with-parent", "--ro-bind", "/", "/"),
        *("--dev", "/dev", "--proc", "/proc"),
        # No file system of its own: git says otherwise what is no clone on a mounted one.
        *("--bind", own, "/tmp"),  # noqa: S108 - the sandbox's
        *(word for how, path in binds for word in (how, path, path)),
        *("--chdir", str(copy)),
    ]


def _environ() -> Mapping[str, str]:
    # What is built may be used, and is read-only as all is.
    own = {"HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108 - in the sandbox
    return {**os.environ, **own, "REPROMATRIX_ENVIRONMENTS": str(Paths().built)}


def _tests(copy: Path, where: str) -> list[str]:
    if where == LOOSE:
        return sorted(str(path.relative_to(copy)) for path in (copy / "tests").glob("test_*.py"))
    return [f"tests/{where}"]


def fates(
    trials: Trials, mutants: Sequence[Mutant], deadline: float, found: dict[str, Fate]
) -> None:
    """Try mutants side by side, and put into `found` what became of each in time."""

    def tried(one: Mutant) -> None:
        if time.monotonic() < deadline:
            fate = trials.fate(one)
            print(f"{fate}: {one.path}: {one.before!r} -> {one.after!r}", flush=True)
            found[one.name] = fate

    trials.side_by_side(tried, mutants)


def tell(tally: Tally, mutants: Sequence[Mutant], found: Mapping[str, Fate], record: Path) -> None:
    """Count by room, and write what was noticed into the record, where nothing is ever lost."""
    before: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    for name in sorted({one.room for one in mutants}):
        names = [one.name for one in mutants if one.room == name and one.name in found]
        survived = [one for one in names if found[one] is Fate.SURVIVED]
        lost = [one for one in survived if before.get(one) in _KNOWN]
        note = f"{len(names) - len(survived)} noticed, {len(survived)} survived"
        tally.count(f"mutants of `{name}`", len(names), "no longer noticed", len(lost), note)
    kept = {name for name, fate in before.items() if fate == Fate.NOTICED}
    merged = before | {name: str(fate) for name, fate in found.items() if name not in kept}
    record.write_text(json.dumps(merged, indent=0, sort_keys=True, ensure_ascii=False) + "\n")


_KNOWN = {Fate.NOTICED, Fate.BY_WHOLE}


def sum_up(tally: Tally, drawn: Sequence[Mutant], found: Mapping[str, Fate]) -> None:
    """Say what became of the mutants that were drawn, and list those that the default misses."""
    named: dict[str, list[Mutant]] = {
        "noticed by default": [one for one in drawn if found.get(one.name) is Fate.NOTICED],
        "noticed by `--whole` alone": [
            one for one in drawn if found.get(one.name) is Fate.BY_WHOLE
        ],
        "noticed by neither": [one for one in drawn if found.get(one.name) is Fate.SURVIVED],
        "not reached": [one for one in drawn if one.name not in found],
    }
    _, *listed = named
    for what in listed:
        for one in named[what]:
            print(f"{what}: {one.path}: {one.before!r} -> {one.after!r}", flush=True)
    tried = len(drawn) - len(named["not reached"])
    most = int(_AT_MOST * tried)
    alone = len(named["noticed by `--whole` alone"])
    note = ", ".join(f"{len(ones)} {what}" for what, ones in named.items())
    tally.count(
        "mutants that were drawn", tried, "too many for `--whole` alone", max(0, alone - most), note
    )


def drill(tally: Tally, root: Path = ROOT, stop: Callable[[], str] = sandbox.trouble) -> None:
    """Try the mutants that REPRO_SEED and REPRO_COUNT say; REPRO_RECORD is another record.

    Then, as long as there is time, those that were noticed before. What was found is kept when it
    is interrupted.
    """
    if stop():
        print(f"a mutant needs a sandbox: {stop()}")
        return
    deadline = time.monotonic() + 60 * MINUTES
    seed, count = (int(os.environ.get(name, "0")) for name in ("REPRO_SEED", "REPRO_COUNT"))
    record = Path(os.environ.get("REPRO_RECORD", RECORD))
    known = remembered(root, json.loads(record.read_text()) if record.exists() else {})
    new = drawn(root, seed or SEED, count or COUNT)
    mutants = list({one.name: one for one in [*new, *known]}.values())
    rooms = sorted({one.room for one in mutants})
    trials = Trials(root=root)
    with trials.copies(len(os.sched_getaffinity(0))):
        red = trials.red_rooms(rooms)
        tally.count("rooms tested without a mutant", len(rooms), "failed", len(red), ", ".join(red))
        found: dict[str, Fate] = {}
        try:
            fates(trials, [one for one in mutants if one.room not in red], deadline, found)
        finally:
            _left_out(trials)
            sum_up(tally, new, found)
            tell(tally, mutants, found, record)


def _left_out(trials: Trials) -> None:
    for (where, part), names in sorted(trials.red.items()):
        if (where, part) not in trials.limits:
            print(f"not run in time without a mutant: {part} of {where}", flush=True)
        for name in names:
            print(f"fails in a sandbox without a mutant: {name}", flush=True)
