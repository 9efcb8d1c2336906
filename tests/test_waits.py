"""Nothing in the runner waits without a limit, or a sentence here says why it may."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

# What is called, and what makes its wait a limited one.
WAITS = (
    (r"os\.wait(pid|id|3|4)?", r"WNOHANG"),
    (r"os\.read", None),
    (r"ray\.(get|wait|init|put|nodes|cancel)", r"timeout="),
    (r"fcntl\.(flock|lockf)", r"LOCK_NB"),
    (r"select\.select", r"(, .*){3}"),
    (r"poll\.poll", r"poll\(0\)"),
    (r"subprocess\.(run|call|check_call|check_output)", r"timeout="),
    (r".*\.(communicate|recv|accept|create_connection|urlopen)", r"timeout="),
    (r".*\.(join|wait|get|acquire|result)", r"[^(]\)$"),
    (r".*\.stdin\.(write|flush)", None),
    (r"(Thread|Process)PoolExecutor", None),
)

# A loop of short waits that looks at no clock has no limit either.
SHORT_WAITS = re.compile(r"\bsleep\(|select\.select\(|\.join\([A-Z_]|\.(wait|get)\(timeout")
CLOCK = "monotonic"

KILLED = "It was killed, and the kernel ends it."
READY = "Asked only where something is there to be read."
IN_A_THREAD = "In the thread that is left behind where the cluster does not answer."
UV = "Its calls of uv have their limits."
RAY_ENDS_IT = "Ray has limits of its own here: `_PATIENCE` shortens some, `patience` adds to one."

ALLOWED = {
    "cli/lock.py: ThreadPoolExecutor(_AT_ONCE)": UV,
    "cli/lock.py: future.result()": UV,
    "cli/report.py: ThreadPoolExecutor(1)": "It reads files of the checkout.",
    "cli/report.py: self.published.result()": "It reads files of the checkout.",
    (
        "execution/events.py: while any((thread.is_alive() for thread in threads))"
        " or not self.empty()"
    ): ("It is as long as a run, whose threads wait for nothing without a limit."),
    "execution/pool.py: while thread.is_alive()": "It ends all that the thread waits for.",
    "execution/pool.py: with self.counting": "Held for a message to each worker, which is limited.",
    (
        "execution/ray/connect.py: ray.init(address=address, runtime_env=environment, **options)"
    ): RAY_ENDS_IT,
    "execution/ray/driver.py: ray.cancel(task)": IN_A_THREAD,
    "execution/ray/driver.py: ray.cancel(task, force=True)": IN_A_THREAD,
    "execution/ray/driver.py: ray.nodes()": IN_A_THREAD,
    "execution/worker_client.py: os.read(self.answers, 1 << 16)": READY,
    "execution/worker_client.py: self.process.stdin.write(rest[:select.PIPE_BUF])": (
        "So many bytes are taken at once where there is room for any."
    ),
    "execution/worker_client.py: self.process.wait()": KILLED,
    "execution/worker_client.py: with self.sending": "Held while a message is sent: limited.",
    "model/case.py: with _PARSING": "Held while a text is parsed.",
    "subprocesses.py: process.wait()": KILLED,
    "subprocesses.py: self.process.wait()": KILLED,
    "worker/cell.py: self.wait()": "In the cell, which is ended at its time limit.",
    "worker/cell_process.py: os.read(descriptor, 1 << 18)": "The pipe does not block.",
    "worker/cell_process.py: os.wait4(self.pid, 0)": KILLED,
    "worker/cell_process.py: os.waitpid(self.first, 0)": KILLED,
    "worker/main.py: os.read(0, 1 << 16)": READY,
    "worker/main.py: poll.poll(idle)": (
        "Without a cell it waits for the runner, whose end is the end of its input."
    ),
    "worker/process_control.py: while True": (
        "All is killed in each round; a worker that answers too late is ended by the runner."
    ),
    "worker/sandbox.py: os.waitpid(pid, 0)": (
        "It waits for the worker for as long as that lives, and ends with bubblewrap."
    ),
}
"""By file and call, why it needs no limit."""


def waits(tree: ast.AST) -> Iterator[str]:
    """Yield what may wait without a limit, as it is written."""
    locks = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and re.match(r"threading\.\w+\(", ast.unparse(node.value))
        for target in node.targets
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function):
                called, written = ast.unparse(function), ast.unparse(node)
                if any(
                    re.fullmatch(name, called) and not (limit and re.search(limit, written))
                    for name, limit in WAITS
                ):
                    yield written
            case ast.While(test=test):
                written = ast.unparse(node)
                if SHORT_WAITS.search(written) and CLOCK not in written:
                    yield f"while {ast.unparse(test)}"
            case ast.With(items=items):
                texts = (ast.unparse(item.context_expr) for item in items)
                yield from (f"with {text}" for text in texts if text in locks)
            case _:
                pass


def test_every_wait_has_a_limit_or_a_reason() -> None:
    runner = ROOT / "runner"
    found = {
        f"{path.relative_to(runner)}: {wait}"
        for path in runner.rglob("*.py")
        for wait in waits(ast.parse(path.read_text(encoding="utf-8")))
    }

    assert found == ALLOWED.keys()


LOOP = "while not done():\n    time.sleep(1)"
HELD = "self.a = threading.Lock()\nwith self.a:\n    pass"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        *((code, [code]) for code in ("thread.join()", "process.communicate('x')", "q.get()")),
        *((code, [code]) for code in ("select.select([a], [], [])", "fcntl.flock(f, EXCLUSIVE)")),
        *((code, [code]) for code in ("os.waitpid(pid, 0)", "ray.get(x)", "ThreadPoolExecutor(2)")),
        *((code, []) for code in ("', '.join(parts)", "thread.join(1)", "table.get(key)")),
        *((code, []) for code in ("select.select([a], [], [], 1)", "os.waitpid(pid, os.WNOHANG)")),
        (LOOP, ["while not done()"]),
        (f"{LOOP}\n    if time.monotonic() > end: break", []),
        (HELD, ["with self.a"]),
    ],
)
def test_a_wait_without_a_limit_is_found_and_no_other(code: str, found: list[str]) -> None:
    assert list(waits(ast.parse(code))) == found
