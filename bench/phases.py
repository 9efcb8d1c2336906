"""Where a cold run spends its time: fresh environments, an empty store, a warm package cache.

`measure` starts this file as a program of its own, which runs the main job with clocks in it.
Processor seconds are what counts: they tell little of what else runs on the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared import Row

RELEASES = ("4.50.0", "5.23.0")
_TICK = os.sysconf("SC_CLK_TCK")


def measure(row: Row) -> None:
    """Run some releases from nothing, and once more with what was built; one line per phase."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / ".nox") as folder:
        cold, warm = _clocked(folder), _clocked(folder)
    total = cold["processor"]
    compiled = max(0.0, cold["import"] - warm["import"])
    known = {
        "building": cold["building"],
        "compiling bytecode": compiled,
        "importing": cold["import"] - compiled,
        "forking, watching, sweeping": cold["worker"],
        "cells: their own code": cold["own"],
        "cells: begin, witness, report, end": cold["cells"] - cold["own"],
        "reading what they report": cold["observe"],
        "storing": cold["store"],
        "showing": cold["display"],
        "drawing the pages": cold["render"],
    }
    rest = total - sum(known.values())
    row("cells", cold["count"], "cells", f"the whole corpus on {', '.join(RELEASES)}, from nothing")
    for what, seconds in {**known, "the rest of the runner": rest}.items():
        row(what, seconds, "s", f"{seconds / total:.1%}")
    row("torch, of the importing", cold["workers"] * _torch(), "s", "shared by all environments")
    row("processor time, all of it", total, "s")
    idle = len(os.sched_getaffinity(0)) * cold["wall"] - total
    row("from start to end", cold["wall"], "s", f"cores not used by it: {idle:.0f} core-seconds")
    row("the same with warm environments", warm["wall"], "s", f"{warm['processor']:.0f} s of work")


def _torch() -> float:
    """Return what importing torch alone takes."""
    import shared  # noqa: PLC0415

    from repromatrix.runner import project  # noqa: PLC0415
    from repromatrix.runner.paths import Paths  # noqa: PLC0415

    return shared.torch_alone(shared.prepared(project.load(Paths()), RELEASES[:1])[0].built)


def _clocked(environments: str) -> dict[str, float]:
    import shared  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        environ = shared.environ(folder) | {"REPROMATRIX_ENVIRONMENTS": environments}
        answer = Path(folder) / "clocks.json"
        command = [sys.executable, __file__, str(answer), "matrix", "--release", ",".join(RELEASES)]
        begin = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=False)
        found: dict[str, float] = json.loads(answer.read_text())
        return found | {"wall": time.perf_counter() - begin}


def main() -> None:
    """Run the main job with clocks in it, and write what they say as JSON."""
    from repromatrix.runner.cli import main as run  # noqa: PLC0415

    answer, *sys.argv[1:] = sys.argv[1:]
    clocks: Counter[str] = Counter()
    clocks["building"] = _build()
    _put_in(clocks)
    with contextlib.suppress(SystemExit):
        run()
    clocks["processor"] = _processor()
    Path(answer).write_text(json.dumps(clocks))


def _build() -> float:
    """Build what the run needs, one after the other: only so can be told what it takes."""
    import shared  # noqa: PLC0415

    from repromatrix.runner import project  # noqa: PLC0415
    from repromatrix.runner.paths import Paths  # noqa: PLC0415

    loaded = project.load(Paths())
    before = _processor()
    shared.prepared(loaded, RELEASES)
    return _processor() - before


def _processor() -> float:
    """Return the processor time of this process and of all that it awaited."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def _put_in(clocks: Counter[str]) -> None:
    from repromatrix.runner import site  # noqa: PLC0415
    from repromatrix.runner.cli.progress import ProgressDisplay  # noqa: PLC0415
    from repromatrix.runner.evidence.store import Store  # noqa: PLC0415
    from repromatrix.runner.execution import pool  # noqa: PLC0415
    from repromatrix.runner.execution.worker_client import Worker  # noqa: PLC0415

    _clock(clocks, "store", Store, "put")
    _clock(clocks, "display", ProgressDisplay, "measured")
    _clock(clocks, "display", ProgressDisplay, "phase")
    _clock(clocks, "render", site, "render")
    _clock_workers(clocks, Worker)
    _clock_cells(clocks, pool)


def _clock(clocks: Counter[str], what: str, owner: Any, name: str) -> None:  # noqa: ANN401
    """Add the processor time of a function, in the thread that calls it."""
    inner: Callable[..., Any] = getattr(owner, name)

    def outer(*positional: Any, **named: Any) -> Any:  # noqa: ANN401
        begin = time.thread_time()
        try:
            return inner(*positional, **named)
        finally:
            clocks[what] += time.thread_time() - begin

    setattr(owner, name, outer)


def _clock_workers(clocks: Counter[str], worker: Any) -> None:  # noqa: ANN401
    """Read from the system what a worker used until it was ready, then itself, then its cells."""
    begin, close = worker.__init__, worker.close
    ready: dict[int, float] = {}

    def began(self: Any, start: Any) -> None:  # noqa: ANN401
        begin(self, start)
        ready[id(self)] = _process(self.process.pid)[0]
        clocks["import"] += ready[id(self)]
        clocks["workers"] += 1

    def closed(self: Any) -> None:  # noqa: ANN401
        if self.process is not None and id(self) in ready:
            itself, below = _process(self.process.pid)
            clocks["worker"] += itself - ready[id(self)]
            clocks["cells"] += below
        close(self)

    worker.__init__, worker.close = began, closed


def _process(pid: int) -> tuple[float, float]:
    """Return the processor seconds of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, below_user, below_system = (int(text) / _TICK for text in fields[11:15])
    return user + system, below_user + below_system


def _clock_cells(clocks: Counter[str], pool: Any) -> None:  # noqa: ANN401
    inner = pool.observe

    def outer(cell: Any, digest: str, answer: Mapping[str, Any], setting: Any) -> Any:  # noqa: ANN401
        clocks["own"] += answer.get("cpu", 0.0)
        clocks["count"] += 1
        begin = time.thread_time()
        try:
            return inner(cell, digest, answer, setting)
        finally:
            clocks["observe"] += time.thread_time() - begin

    pool.observe = outer


if __name__ == "__main__":
    main()
