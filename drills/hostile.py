"""Hostile cases, each among neighbours in one worker: the neighbours must end as they do without
it, the case itself as it must, and nothing may be left.

The neighbours are copies of one that fails, one that never computes in its precision, and one that
passes and looks at all that it was given, before and behind every hostile case. With one cell at
a time they come right after the hostile one; with two at a time they also run beside it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from fakes import CORPUS, Drive, load

from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakes import Ran

    from drills.tally import Tally

NEIGHBOURS = ("looks_around", "fails_as_described", "only_casts")
_MEMORY, _CRASHES, _TIMES_OUT = "out-of-memory", "crashes", "times-out"
_PASSES, _UNREPORTED = "passes", "fails MissingReport"

# What each of them must come to, workaround by workaround: outcome and class of the error.
HOSTILE: Mapping[str, Mapping[str, str]] = {
    "hangs": {"": _TIMES_OUT},
    "ignores_sigterm": {"": _TIMES_OUT},
    "leaves_main_thread": {"": _TIMES_OUT},
    "leaves_threads": {"": _PASSES, "not-daemon": _PASSES},
    "exits_in_thread": {"": _PASSES, "hard": _UNREPORTED},
    "eats_memory": dict.fromkeys(["", "at-once", "below", "let-go"], _MEMORY),
    "recurses": {
        "": "fails RecursionError",
        "without-end": _MEMORY,
        "in-c": f"{_CRASHES} SIGSEGV",
    },
    "floods_stdout": {"": _PASSES},
    "prints_late": {"": _PASSES},
    "prints_binary": {"": _PASSES},
    "leaves_many_files": {"": _PASSES, "deep": _PASSES},
    "litters_folder": dict.fromkeys(["", "again", "once-more"], _PASSES),
    "litters_home": dict.fromkeys(["", "again"], _PASSES),
    "segfaults": {"": f"{_CRASHES} SIGSEGV"},
    "aborts": {"": f"{_CRASHES} SIGABRT"},
    "dies_unusually": {"": f"{_CRASHES} signal 35"},
    "exits_without_report": {"": _UNREPORTED},
    "becomes_daemon": {"": _UNREPORTED},
    "forks": {"": _PASSES},
    "leaves_grandchild": {"": _PASSES},
    "closes_descriptors": {"": _PASSES, "all": _UNREPORTED},
    "writes_report": {"": _PASSES},
    "writes_everywhere": {"": _UNREPORTED, "held": _PASSES},
    "kills_group": {"": f"{_CRASHES} SIGKILL"},
    "kills_worker": {"": f"{_CRASHES} ZygoteLost"},
    "stops_worker": {"": f"{_CRASHES} ZygoteLost"},
    "changes_signals": {"": _PASSES},
    "changes_surroundings": {"": _PASSES},
    "changes_torch": {"": _PASSES},
    "replaces_functions": {"": _PASSES},
    "replaces_methods": {"": _PASSES, "fails": "fails KeyError"},
    "replaces_stdout": {"": _PASSES, "stuck": _TIMES_OUT},
    "reads_stdin": {"": _PASSES},
    "long_message": {"": "fails ValueError"},
    "message_raises": {"": "fails HostileError"},
    "message_surrogate": {"": "fails LookupError"},
    "nameless_exception": {"": "fails HostileError"},
}

BESIDE = tuple(name for name in HOSTILE if name != "litters_home")
"""Cells that run at the same moment share their home; what is put there is gone before the next."""
_PATIENT = ('# models = ["fake"]\n', '# models = ["fake"]\n# timeout = 400\n')
LARGE = {
    "floods_stdout": (("(1 << 30)", "10_000_000_000"), _PATIENT),
    "leaves_many_files": (("NUMBER = 10_000", "NUMBER = 1_000_000"), _PATIENT),
}
"""What is put in the place of what, so that a case prints 10 GB and leaves a million files."""
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
    folders_left: int
    processes_left: int
    growth: int
    """Bytes by which a worker grew at most."""
    seconds: float


def attack(names: Sequence[str], jobs: int, folder: Path, *, large: bool = False) -> Result:
    """Run neighbours alone, then with hostile cases between them, and compare."""
    folder.mkdir(parents=True, exist_ok=True)
    near, everything = _written(names, folder / "cases", large=large)
    alone = _run(near, jobs, folder / "alone")
    begin = time.monotonic()
    with _watched() as grew:
        ran = _run(everything, jobs, folder / "among")
    before, behind = _facts(alone), _facts(ran)
    seen = {name: _outcome(ran, name) for name in _expected(names)}
    return Result(
        cells=len(seen),
        neighbours=len(before),
        disturbed=tuple(name for name in before if before[name] != behind.get(name)),
        wrong=tuple(
            f"{name}: {seen[name]}" for name, what in _expected(names).items() if seen[name] != what
        ),
        folders_left=len(ran.folders_left),
        processes_left=len({*ran.processes_left, *ran.children_left}),
        growth=max(grew, default=0),
        seconds=time.monotonic() - begin,
    )


def _written(names: Sequence[str], folder: Path, *, large: bool) -> tuple[list[Path], list[Path]]:
    """Write the cases in their order, and return the neighbours, and all of them."""
    folder.mkdir()
    near, everything = [], []
    for number in range(len(names) + 1):
        for name in NEIGHBOURS:
            path = folder / f"near_{number}_{name}.py"
            path.write_text((CORPUS / f"fake_{name}.py").read_text())
            near.append(path)
            everything.append(path)
        for name in names[number : number + 1]:
            path = folder / f"fake_{name}.py"
            text = (CORPUS / path.name).read_text()
            for old, new in LARGE[name] if large else ():
                assert old in text
                text = text.replace(old, new)
            path.write_text(text)
            everything.append(path)
    return near, everything


def _run(files: Sequence[Path], jobs: int, folder: Path) -> Ran:
    folder.mkdir()
    return Drive(loaded=load(files), folder=folder, jobs=jobs).run()


def _facts(ran: Ran) -> dict[str, Facts]:
    """Return what must be the same of each neighbour, whatever runs beside it."""
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
        for workaround, what in HOSTILE[name].items()
    }


def _outcome(ran: Ran, name: str) -> str:
    """Return outcome and error of a cell; out of memory counts where it was our limit, twice."""
    if name not in ran.found:
        return "not run"
    seen = ran.seen(name)
    if seen.outcome.value == _MEMORY:
        return _MEMORY if seen.hit_limit and seen.repeats > 1 else f"{_MEMORY}, not confirmed"
    return f"{seen.outcome} {seen.failed.error_class}" if seen.failed else seen.outcome.value


@contextmanager
def _watched() -> Iterator[list[int]]:
    """Look at the workers of this process; afterwards the list holds by how much each grew."""
    grew: list[int] = []
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for pid in process_control.children(os.getpid()):
                found = _high_water(pid)
                if found and (pid in first or process_control.children(pid)):  # it has imported
                    first.setdefault(pid, found)
                    last[pid] = found

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield grew
    finally:
        over.set()
        watching.join()
        grew += [last[pid] - first[pid] for pid in first]


def _high_water(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) << 10 if found else 0


def drill(tally: Tally) -> None:
    """Run all of them, one and two at a time, then the largest as large as they can be."""
    with tempfile.TemporaryDirectory(dir=_in_memory()) as name:
        for jobs, names in ((1, list(HOSTILE)), (2, BESIDE)):
            result = attack(names, jobs, Path(name) / f"{jobs}")
            _count(tally, f"hostile cells, {jobs} at a time", result)
        result = attack(list(LARGE), 2, Path(name) / "large", large=True)
        _count(tally, "10 GB of output, a million files, folders 250,000 deep", result)
        grown = result.growth > _GROWTH
        note = f"{result.growth >> 20} MiB"
        tally.count("10 GB of output", 1, "the worker grew by over 64 MiB", int(grown), note)


def _count(tally: Tally, what: str, result: Result) -> None:
    for told in (*result.disturbed, *result.wrong):
        print(f"  {told}", flush=True)
    note = f"{result.neighbours} neighbours, {result.seconds:.0f} s"
    tally.count(what, result.cells, "neighbours disturbed", len(result.disturbed), note)
    tally.count(what, result.cells, "ended otherwise than they must", len(result.wrong))
    left = result.folders_left + result.processes_left
    tally.count(what, result.cells, "processes or folders left", left)


def _in_memory() -> str | None:
    """Return a folder in memory, where a million files cost no disk, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
