"""Fork bombs between other cells of the same worker, with a sandbox and without it."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from drills import cells
from repromatrix.runner.execution import cgroup
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from drills.cells import Ground
    from drills.tally import Tally
    from repromatrix.runner.execution.worker_client import Worker

BOMBS = {
    "forks": "import os\nwhile True:\n    with contextlib.suppress(OSError): os.fork()",
    "forks in sessions of their own": """
        import os
        while True:
            with contextlib.suppress(OSError):
                if os.fork() == 0: os.setsid()
        """,
    "leaves its parent behind for ever": """
        import os
        while True:
            with contextlib.suppress(OSError):
                if os.fork(): os._exit(0)
        """,
    "leaves a crowd of orphans": """
        import os, time
        for _ in range(2000):
            with contextlib.suppress(OSError):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0: time.sleep(600)
                    os._exit(0)
        time.sleep(600)
        """,
    "starts programs": """
        import subprocess
        while True:
            with contextlib.suppress(OSError): subprocess.Popen(['sleep', '600'])
        """,
    "starts threads": """
        import threading, time
        while True:
            try: threading.Thread(target=time.sleep, args=(600,)).start()
            except RuntimeError: time.sleep(0.01)
        """,
    "ignores every signal": """
        import os, signal
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        while True:
            with contextlib.suppress(OSError): os.fork()
        """,
}
# What a bomb could take from them: processes, threads, time, and their worker.
NEIGHBOURS = (
    "import subprocess\nassert subprocess.check_output(['echo', 'a']) == b'a\\n'",
    "import threading\none = threading.Thread(target=print)\none.start()\none.join()",
    "measured = {'sum': float(sum(range(100_000)))}",
    "raise KeyError('absent')",
)
# Smaller than in a real run, so that who works on this machine goes on working.
_MOST, _CAP = 96, 256
_OUTER = 4
"""Processes of the walls that are not counted: they stand outside."""
_SECONDS = 20

Seen = dict[str, tuple[str, str]]


def _outcome(answer: dict[str, Any]) -> tuple[str, str]:
    return answer["outcome"], answer.get("error_class", "")


@dataclass(kw_only=True, slots=True)
class Found:
    """How bombs ended, how many neighbours did what they do without one, and what went wrong."""

    ended: Seen
    spared: int = 0
    wrong: list[str] = field(default_factory=list)


def exploded(ground: Ground, bombs: Sequence[str], *, sandbox: bool) -> Found:
    """Run bombs between neighbours, two cells at once, and look at everything afterwards."""
    found = Found(ended={})
    with (
        mock.patch.object(cgroup, "TASKS", _CAP),
        tempfile.TemporaryDirectory() as folder,
    ):
        calm = [_script(folder, f"calm_{n}", text) for n, text in enumerate(NEIGHBOURS)]
        loud = [_script(folder, f"bomb_{n}", BOMBS[name]) for n, name in enumerate(bombs)]
        with cells.worker(ground, [*calm, *loud], sandbox=sandbox, slots=2) as worker:
            for name, bomb in zip(bombs, loud, strict=True):
                _one(worker, name, bomb, calm, found)
    return found


def _one(worker: Worker, name: str, bomb: Path, calm: Sequence[Path], found: Found) -> None:
    alone = [_outcome(one) for one in _answers(worker, calm).values()]
    with _watched(worker) as most:
        answers = _answers(worker, [bomb, *calm, *calm])
    found.ended[name] = _outcome(answers.get(0, {"outcome": "unknown"}))
    beside = [_outcome(one) for number, one in answers.items() if number > 0]
    found.spared += sum(one == two for one, two in zip(beside, alone * 2, strict=False))
    if beside != alone * 2:
        found.wrong.append(f"{name}: {beside}")
    if cgroup.can_count() and most[0] > _CAP + _OUTER:
        found.wrong.append(f"{name}: {most[0]} at once")
    if _left(worker):
        found.wrong.append(f"{name}: some are left")


def _script(folder: str, name: str, text: str) -> Path:
    path = Path(folder) / f"{name}.py"
    path.write_text(f"import contextlib\n{textwrap.dedent(text)}")
    return path


def _answers(worker: Worker, scripts: Sequence[Path]) -> dict[int, Any]:
    requests = [
        cells.request(path, number, seconds=_SECONDS, processes=_MOST)
        for number, path in enumerate(scripts)
    ]
    return dict(sorted(cells.said(worker, *requests, ahead=len(requests)).items()))


def _left(worker: Worker) -> list[int]:
    """Return what is left below a worker that has nothing to do; ended ones may be being reaped."""
    assert worker.process is not None
    expected = {worker.process.pid, *process_control.descendants(worker.process.pid)}
    time.sleep(0.1)
    found = [pid for pid in _of(worker.scratch) if pid not in expected]
    below = process_control.descendants(worker.process.pid)
    return [*found, *below[3:]]


def _of(folder: Path) -> list[int]:
    """Return the processes whose environment names a folder, whoever their parents are."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def _watched(worker: Worker) -> Iterator[list[int]]:
    """Count, from outside, the most processes and threads below a worker at once."""
    most, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            pid = worker.process.pid if worker.process else 0
            most[0] = max(
                most[0], sum(map(process_control.tasks, process_control.descendants(pid)))
            )

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield most
    finally:
        over.set()
        watching.join()


def drill(tally: Tally) -> None:
    """Count the neighbours of bombs in a real worker, and those that a bomb disturbed."""
    ground = cells.release()
    for sandbox in (True, False):
        found = exploded(ground, list(BOMBS), sandbox=sandbox)
        way = "in a sandbox" if sandbox else "without one"
        alive = [name for name, one in found.ended.items() if one[0] not in {"crashes", "fails"}]
        tally.count(f"fork bombs, {way}", len(found.ended), "not ended", len(alive))
        told = "; ".join(found.wrong)
        neighbours = 2 * len(NEIGHBOURS) * len(BOMBS)
        tally.count(
            f"neighbours of fork bombs, {way}", neighbours, "disturbed", neighbours - found.spared
        )
        tally.count(
            f"fork bombs, {way}",
            len(found.ended),
            "too many at once, or some left",
            len(found.wrong),
            told,
        )
