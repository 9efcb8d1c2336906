"""Run hostile cases and fork bombs among other cells in one worker, which must not be disturbed.

The other cells are copies of a case that fails, one that never computes in its precision, and one
that passes and inspects its surroundings. They run before and after every hostile case and, with
two at a time, beside it. Afterwards nothing of the hostile case may be left.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import threading
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unittest import mock

import fakes
from commands import quick_disk
from fakes import Drive, Ran, corpus, load

from checks.table import Table
from repromatrix.runner.execution import cgroup, sandbox
from repromatrix.runner.worker import process_control

NEIGHBOURS = ("looks_around", "fails_as_described", "only_casts")
_MEMORY, _ENDED = "out-of-memory", "crashes or fails"
_TOLD = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
HOSTILE: Mapping[str, Mapping[str, str]] = _TOLD["hostile"]
BOMBS: Mapping[str, str] = _TOLD["bombs"]
BESIDE = tuple(name for name in HOSTILE if name != "litters_home")
"""Cells that run at the same moment share their home; what is put there is gone before the next."""
_PATIENT = ('# models = ["fake"]\n', '# models = ["fake"]\n# timeout = 400\n')
LARGE = {
    "floods_stdout": (("(1 << 30)", "10_000_000_000"), _PATIENT),
    "leaves_many_files": (("NUMBER = 10_000", "NUMBER = 1_000_000"), _PATIENT),
}
"""What is put in the place of what, so that a case prints 10 GB and leaves a million files."""
# Smaller than in a real run, so that who works on this machine goes on working.
_MOST, _CAP, _SECONDS = 96, 256, 20
_OUTER = 4
"""Processes around a cell that are not counted with it."""
_GROWTH = 64 << 20
"""Bytes by which a worker may grow because of what its cells print."""

Facts = tuple[str, str, str, tuple[tuple[str, float], ...], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What hostile cases among neighbours came to."""

    cells: int
    neighbours: int
    disturbed: tuple[str, ...]
    wrong: tuple[str, ...]
    left: int
    """Folders and processes."""
    growth: int
    """Bytes by which a worker grew at most."""
    tasks: int
    """The most processes and threads below a worker at once."""
    seconds: float


def check(table: Table, _options: argparse.Namespace) -> None:
    """Run all of them, one and two at a time, then the largest as large as can be, and bombs."""
    with tempfile.TemporaryDirectory(dir=quick_disk()) as name:
        for jobs, names in ((1, list(HOSTILE)), (2, BESIDE)):
            result = attack(names, jobs, Path(name) / f"{jobs}")
            _count(table, f"hostile cells, {jobs} at a time", result)
        result = attack(list(LARGE), 2, Path(name) / "large", large=True)
        _count(table, "10 GB of output, a million files, folders 250,000 deep", result)
        grown = result.growth > _GROWTH
        note = f"{result.growth >> 20} MiB"
        table.count("10 GB of output", 1, "the worker grew by over 64 MiB", grown, note)
        for walls in (True, False):
            what = f"fork bombs, {'in a sandbox' if walls else 'without one'}"
            if walls and (trouble := sandbox.trouble()):
                table.count(what, 0, "neighbours disturbed", 0, trouble)
                continue
            result = explode(list(BOMBS), Path(name) / f"bombs {walls}", walls=walls)
            _count(table, what, result)
            if cgroup.can_count():
                many = max(0, result.tasks - _CAP - _OUTER)
                table.count(what, len(BOMBS), f"processes over {_CAP} at once", many)


def _count(table: Table, what: str, result: Result) -> None:
    for told in (*result.disturbed, *result.wrong):
        print(f"  {told}", flush=True)
    note = f"{result.neighbours} neighbours, {result.seconds:.0f} s"
    table.count(what, result.cells, "neighbours disturbed", len(result.disturbed), note)
    table.count(what, result.cells, "ended otherwise than they must", len(result.wrong))
    table.count(what, result.cells, "processes or folders left", result.left)


def explode(names: Sequence[str], folder: Path, *, walls: bool) -> Result:
    """Let bombs go off among neighbours, two cells at once."""
    with ExitStack() as patches:
        few = fakes.LIMITS.model_copy(update={"processes": _MOST, "seconds": _SECONDS})
        patches.enter_context(mock.patch.object(fakes, "LIMITS", few))
        patches.enter_context(mock.patch.object(cgroup, "TASKS", _CAP))
        return attack(names, 2, folder, walls=walls)


def attack(
    names: Sequence[str], jobs: int, folder: Path, *, large: bool = False, walls: bool = False
) -> Result:
    """Run neighbours alone, then with hostile cases between them, and compare."""
    folder.mkdir(parents=True, exist_ok=True)
    near, everything = _written(names, folder / "cases", large=large)
    alone = _run(near, jobs, folder / "alone", walls=walls)
    begin = time.monotonic()
    with _Watch() as watch:
        ran = _run(everything, jobs, folder / "among", walls=walls)
    before, behind = _facts(alone), _facts(ran)
    expected = _expected(names)
    seen = {name: _outcome(ran, name) for name in expected}
    return Result(
        cells=len(seen),
        neighbours=len(before),
        disturbed=tuple(name for name in before if before[name] != behind.get(name)),
        wrong=tuple(
            f"{name}: {seen[name]}" for name, what in expected.items() if not _is(seen[name], what)
        ),
        left=len(ran.folders_left) + len({*ran.processes_left, *ran.children_left}),
        growth=max((watch.last[pid] - watch.first[pid] for pid in watch.first), default=0),
        tasks=watch.tasks,
        seconds=time.monotonic() - begin,
    )


def _is(seen: str, what: str) -> bool:
    return seen.partition(" ")[0] in {"crashes", "fails"} if what == _ENDED else seen == what


def _written(names: Sequence[str], folder: Path, *, large: bool) -> tuple[list[Path], list[Path]]:
    """Write the cases in their order, and return the neighbours, and all of them."""
    folder.mkdir()
    everything = []
    for number in range(len(names) + 1):
        for name in NEIGHBOURS:
            path = folder / f"near_{number}_{name}.py"
            path.write_text((corpus() / f"fake_{name}.py").read_text())
            everything.append(path)
        for name in names[number : number + 1]:
            path = folder / f"fake_{name}.py"
            path.write_text(_text(name, large=large))
            everything.append(path)
    return [path for path in everything if path.name.startswith("near_")], everything


def _text(name: str, *, large: bool) -> str:
    if name in BOMBS:
        head, end, _ = (corpus() / "fake_forks.py").read_text().partition('# ///\n"""')
        return f'{head}{end}A fork bomb."""\nimport contextlib\n{BOMBS[name]}'
    text = (corpus() / f"fake_{name}.py").read_text()
    for old, new in LARGE[name] if large else ():
        assert old in text
        text = text.replace(old, new)
    return text


def _run(files: Sequence[Path], jobs: int, folder: Path, *, walls: bool) -> Ran:
    folder.mkdir()
    return Drive(loaded=load(files), folder=folder, jobs=jobs, sandbox=walls).run()


def _facts(ran: Ran) -> dict[str, Facts]:
    """Return what must not change in a neighbour when a hostile case runs beside it."""
    return {
        name: (
            one.seen.outcome.value,
            one.seen.failed.signature if one.seen.failed else "",
            one.seen.exercised.value,
            tuple(sorted({**one.seen.computed, **one.seen.measured}.items())),
            one.seen.unstable,
        )
        for name, one in ran.found.items()
        if name.startswith("near_")
    }


def _expected(names: Sequence[str]) -> dict[str, str]:
    return {
        f"{name} + {workaround}" if workaround else name: what
        for name in names
        for workaround, what in HOSTILE.get(name, {"": _ENDED}).items()
    }


def _outcome(ran: Ran, name: str) -> str:
    """Return outcome and error of a cell; out of memory counts where it was our limit, twice."""
    if name not in ran.found:
        return "not run"
    seen = ran.seen(name)
    if seen.outcome.value == _MEMORY:
        return _MEMORY if seen.hit_limit and seen.repeats > 1 else f"{_MEMORY}, not confirmed"
    return f"{seen.outcome} {seen.failed.error_class}" if seen.failed else seen.outcome.value


class _Watch(threading.Thread):
    """Looks at the workers of this process: their memory at first and at last, their processes."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.tasks = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def run(self) -> None:
        while not self.over.wait(0.05):
            for pid in process_control.children(os.getpid()):
                below = process_control.descendants(pid)
                self.tasks = max(self.tasks, sum(map(process_control.tasks, below)))
                found = _high_water(pid)
                if found and (pid in self.first or below):  # it has imported
                    self.first.setdefault(pid, found)
                    self.last[pid] = found


def _high_water(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) << 10 if found else 0
