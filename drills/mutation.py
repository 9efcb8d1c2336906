"""Mutants of `runner/` and `reports/`, drawn at random, each against the quick tests of its room;
one that they noticed before, as the record says, is tried first and must be noticed again.

mutmut says what can be changed. A mutant runs in a copy of the checkout and in a sandbox of its
own, since it may delete or kill whatever it reaches.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
import queue
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

from repromatrix.runner.execution import sandbox
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from drills.tally import Tally

SEED, COUNT, MINUTES = 7, 200, 30
RECORD = Path(__file__).with_name("mutants.json")
LOOSE = "runner"
"""The room of the modules beside the rooms of `runner/`."""
_TWICE = 2
"""A mutant has this many times as long as the tests take without one, and a little."""
_LITTLE = 20.0
_LONG = 600.0
_MEMORY = 8 << 30
_LEFT_OUT = shutil.ignore_patterns(".git", ".nox", ".repromatrix", ".*_cache", "__pycache__")
_PYTEST = ("-m", "pytest", "-x", "-q", "--quick", "-p", "no:cacheprovider", "--hypothesis-seed=0")
_PASSED, _NO_TESTS = 0, 5
_SKIPPED = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
"""What is not executed, or says nothing of what a program does."""


class Fate(StrEnum):
    """What became of a mutant."""

    NOTICED = "noticed"
    SURVIVED = "survived"


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
    for name in sorted(name for name, fate in record.items() if fate == Fate.NOTICED):
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


@dataclass(kw_only=True)
class Trials:
    """Copies of a checkout, in each of which one mutant at a time is tried."""

    root: Path
    free: queue.Queue[Path] = field(default_factory=queue.Queue)
    limits: dict[str, float] = field(default_factory=dict)
    written: int = 0

    @contextlib.contextmanager
    def copies(self, count: int) -> Iterator[None]:
        """Make copies, and remove them."""
        with tempfile.TemporaryDirectory() as folder:
            for number in range(count):
                there = Path(folder) / str(number)
                shutil.copytree(self.root, there, ignore=_LEFT_OUT, symlinks=True)
                self.free.put(there)
            yield

    def red(self, rooms: Iterable[str]) -> list[str]:
        """Return the rooms whose tests fail without a mutant; the others get their limits."""
        names = list(rooms)
        with ThreadPoolExecutor(self.free.qsize()) as pool:
            return [
                name for name, red in zip(names, pool.map(self._is_red, names), strict=True) if red
            ]

    def _is_red(self, where: str) -> bool:
        begin = time.monotonic()
        red = self._fate(where, _LONG) is Fate.NOTICED
        self.limits[where] = _TWICE * (time.monotonic() - begin) + _LITTLE
        return red

    def fate(self, one: Mutant) -> Fate:
        """Run the tests of its room against a mutant."""
        return self._fate(one.room, self.limits[one.room], one)

    def _fate(self, where: str, seconds: float, one: Mutant | None = None) -> Fate:
        copy = self.free.get()
        try:
            with self._changed(copy, one), tempfile.TemporaryDirectory(dir=copy.parent) as own:
                command = [*_walls(copy, own), sys.executable, *_PYTEST, *_tests(copy, where)]
                done = finish(command, environ=_environ(), folder=copy, seconds=seconds)
        finally:
            self.free.put(copy)
        return Fate.SURVIVED if done.code in {_PASSED, _NO_TESTS} else Fate.NOTICED

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
    return {**os.environ, "HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108 - in the sandbox


def _tests(copy: Path, where: str) -> list[str]:
    if where == LOOSE:
        return sorted(str(path.relative_to(copy)) for path in (copy / "tests").glob("test_*.py"))
    return [f"tests/{where}"]


def fates(trials: Trials, mutants: Sequence[Mutant], minutes: float) -> dict[str, Fate]:
    """Try mutants side by side; those whose turn comes too late are left out."""
    deadline = time.monotonic() + 60 * minutes

    def tried(one: Mutant) -> tuple[Mutant, Fate | None]:
        return one, trials.fate(one) if time.monotonic() < deadline else None

    found = {}
    with ThreadPoolExecutor(trials.free.qsize()) as pool:
        for one, fate in pool.map(tried, mutants):
            if fate:
                print(f"{fate}: {one.path}: {one.before!r} -> {one.after!r}", flush=True)
                found[one.name] = fate
    return found


def tell(tally: Tally, mutants: Sequence[Mutant], found: Mapping[str, Fate], record: Path) -> None:
    """Count by room, and write what was noticed into the record, where nothing is ever lost."""
    before: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    for name in sorted({one.room for one in mutants}):
        names = [one.name for one in mutants if one.room == name and one.name in found]
        survived = [one for one in names if found[one] is Fate.SURVIVED]
        lost = [one for one in survived if before.get(one) == Fate.NOTICED]
        note = f"{len(names) - len(survived)} noticed, {len(survived)} survived"
        tally.count(f"mutants of `{name}`", len(names), "no longer noticed", len(lost), note)
    kept = {name for name, fate in before.items() if fate == Fate.NOTICED}
    merged = before | {name: str(fate) for name, fate in found.items() if name not in kept}
    record.write_text(json.dumps(merged, indent=0, sort_keys=True, ensure_ascii=False) + "\n")


def drill(tally: Tally, root: Path = ROOT, stop: Callable[[], str] = sandbox.trouble) -> None:
    """Try the mutants that REPRO_SEED and REPRO_COUNT say; REPRO_RECORD is another record."""
    if stop():
        print(f"a mutant needs a sandbox: {stop()}")
        return
    seed, count = (int(os.environ.get(name, "0")) for name in ("REPRO_SEED", "REPRO_COUNT"))
    record = Path(os.environ.get("REPRO_RECORD", RECORD))
    known = remembered(root, json.loads(record.read_text()) if record.exists() else {})
    new = drawn(root, seed or SEED, count or COUNT)
    mutants = list({one.name: one for one in [*known, *new]}.values())
    rooms = sorted({one.room for one in mutants})
    trials = Trials(root=root)
    with trials.copies(len(os.sched_getaffinity(0))):
        red = trials.red(rooms)
        tally.count("rooms tested without a mutant", len(rooms), "failed", len(red), ", ".join(red))
        green = [one for one in mutants if one.room not in red]
        found = fates(trials, green, MINUTES)
    tell(tally, green, found, record)
