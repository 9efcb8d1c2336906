"""Change modules that a branch changed at random, and run the tests of their rooms on each mutant.

mutmut makes the changes; its own runner finds no tests for modules that are imported through links,
as those of `repromatrix/` are. A mutant runs in a sandboxed copy of the checkout, because it may
delete or kill whatever it reaches. `mutants.json` keeps the seed and the survivors.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

from checks.table import Table
from repromatrix.runner.execution import sandbox
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.subprocesses import finish

SEED, COUNT, MINUTES = 7, 60, 30
RECORD = Path(__file__).with_name("mutants.json")
_LONG = 600.0
_TMP = "/tmp"  # noqa: S108 - the sandbox's
_NO_COPY = shutil.ignore_patterns(".git", ".nox", ".repromatrix", ".*_cache", "__pycache__")
_PYTEST = ("-m", "pytest", "-q", "-x", "--quick", "--tb=no", "-p", "no:cacheprovider")
_GREEN = {0, 5}
"""Exit codes of pytest: all passed, and no tests."""
_SKIPPED = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
"""What is not executed, or says nothing of what a program does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One small change of one file."""

    path: str
    change: str
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """The same as long as its lines are, wherever they move in the file."""
        return f"{self.path}: {self.change}"

    @property
    def tests(self) -> str:
        """The folder of `tests/` that mirrors the room of its file, or all that is in none."""
        top, *inner, _ = Path(self.path).parts
        return f"tests/{next(iter(inner), '')}" if top == "runner" else f"tests/{top}"


def check(table: Table, options: argparse.Namespace, root: Path = ROOT) -> None:
    """Draw mutants of what changed since a commit, and count those that no test notices."""
    if stop := sandbox.trouble():
        msg = f"a mutant needs a sandbox: {stop}"
        raise SystemExit(msg)
    deadline = time.monotonic() + 60 * MINUTES
    seed = options.seed or SEED
    mutants = drawn(root, changed(root, options.since), seed, options.count or COUNT)
    known = set(json.loads(RECORD.read_text())["survived"])
    found: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(root, copy, ignore=_NO_COPY, symlinks=True)
        rooms = sorted({one.tests for one in mutants})
        seconds = {room: _seconds(copy, room) for room in rooms}
        red = [room for room in rooms if not seconds[room]]
        table.count("rooms tested without a mutant", len(rooms), "failed", len(red), ", ".join(red))
        for one in mutants:
            if seconds[one.tests] and time.monotonic() < deadline:
                found[one.name] = _code(copy, one.tests, seconds[one.tests], one) not in _GREEN
    survived = {name for name, is_noticed in found.items() if not is_noticed}
    new = sorted(survived - known)
    note = f"seed {seed}; {len(survived)} survived, {len(mutants) - len(found)} not reached"
    table.count("mutants", len(found), "survived that did not before", len(new), note)
    for name in new:
        print(f"  survived: {name}", flush=True)
    if options.write:
        kept = sorted({*known - found.keys(), *survived})
        record = {"seed": seed, "survived": kept}
        RECORD.write_text(json.dumps(record, indent=0, ensure_ascii=False) + "\n")


def changed(root: Path, since: str) -> list[str]:
    """Return the modules of `runner/` and `reports/` that differ from a commit."""
    asked = ["git", "diff", "--name-only", "--diff-filter=d", since, "--", "runner", "reports"]
    told = finish(asked, folder=root)
    if told.code:
        msg = f"--since {since}: {told.err.strip()}"
        raise SystemExit(msg)
    return sorted(path for path in told.out.splitlines() if path.endswith(".py"))


class _Changes(cst.CSTVisitor):
    """Collects what each operator would put in the place of which node."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _SKIPPED):
            return False
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                self.found.extend((node, other) for other in operator(node))
        return True


def drawn(root: Path, paths: Sequence[str], seed: int, count: int) -> list[Mutant]:
    """Draw different mutants of some files, each file as often as it is long."""
    rng = random.Random(seed)
    texts = {path: (root / path).read_text() for path in paths}
    modules = {path: cst.parse_module(text) for path, text in texts.items()}
    every = []
    for path, module in modules.items():
        changes = _Changes()
        module.visit(changes)
        every += [(path, *pair) for pair in changes.found]
    found: dict[str, Mutant] = {}
    for path, old, new in rng.sample(every, len(every)):
        text = modules[path].deep_replace(old, new)
        assert isinstance(text, cst.Module)
        if one := mutant(path, texts[path], text.code):
            found.setdefault(one.name, one)
        if len(found) == count:
            break
    return list(found.values())


def mutant(path: str, text: str, other: str) -> Mutant | None:
    """Return the change of a text to another one; None where that means the same, or nothing."""
    try:
        if ast.dump(ast.parse(text)) == ast.dump(ast.parse(other)):
            return None
        compile(other, path, "exec")
    except SyntaxError:
        return None
    sides = [text.splitlines(), other.splitlines()]
    while all(sides) and sides[0][0] == sides[1][0]:
        sides = [lines[1:] for lines in sides]
    while all(sides) and sides[0][-1] == sides[1][-1]:
        sides = [lines[:-1] for lines in sides]
    before, after = (" ".join(line.strip() for line in lines) for lines in sides)
    return Mutant(path=path, change=f"{before} -> {after}", text=other)


def _seconds(copy: Path, tests: str) -> float:
    """Return how long the tests of a room may take with a mutant; 0 where they fail without one."""
    begin = time.monotonic()
    code = _code(copy, tests, _LONG)
    return 2 * (time.monotonic() - begin) + 20 if code in _GREEN else 0.0


def _code(copy: Path, tests: str, seconds: float, one: Mutant | None = None) -> int | None:
    """Run tests in the copy, with a mutant in it or without; return pytest's exit code."""
    path = copy / (one.path if one else "pyproject.toml")
    before, text = path.stat(), path.read_text()
    names = [tests] if tests != "tests/" else map(str, copy.glob("tests/test_*.py"))
    try:
        with tempfile.TemporaryDirectory(dir=copy.parent) as own:
            path.write_text(one.text if one else text)
            command = [*_walls(copy, own), sys.executable, *_PYTEST, *names]
            # What is built may be used, and is read-only as all is.
            built = {"REPROMATRIX_ENVIRONMENTS": str(Paths().built)}
            environ = {**os.environ, "HOME": _TMP, "TMPDIR": _TMP, **built}
            return finish(command, environ=environ, folder=copy, seconds=seconds).code
    finally:
        path.write_text(text)
        # Python knows compiled files by time and size: no two texts may have the same of both.
        os.utime(path, (before.st_atime, before.st_mtime + 2))


def _walls(copy: Path, own: str) -> list[str]:
    """Let only the copy and a folder of its own be written, and let nothing outside be killed."""
    binds = [("--ro-bind", sys.prefix), ("--ro-bind", sys.base_prefix), ("--bind", str(copy))]
    return [
        *("bwrap", "--unshare-pid", "--unshare-net", "--die-with-parent", "--ro-bind", "/", "/"),
        *("--dev", "/dev", "--proc", "/proc"),
        *("--bind", own, _TMP),
        *(word for how, path in binds for word in (how, path, path)),
        *("--chdir", str(copy)),
    ]
