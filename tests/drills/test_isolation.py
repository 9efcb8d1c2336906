"""The sandbox, tried: no case gets out of it, and what it holds is said before a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from needs import bubblewrap

from drills import bombs, cells, isolation
from drills.escapes import ESCAPES, PAIRS
from repromatrix.runner.cli.options import decide_sandbox
from repromatrix.runner.execution import cgroup, sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

HARMLESS = [one for one in ESCAPES if one.harmless and (os.getuid() == 0 or not one.root)]


@bubblewrap
@pytest.mark.parametrize("fresh", [False, True])
def test_no_case_escapes(*, fresh: bool) -> None:
    tried = ESCAPES[::4] if fresh else ESCAPES  # a fresh interpreter takes its time
    expected: isolation.Signs = {one.name: [] for one in tried}
    actual = isolation.tried(cells.here(), tried, sandbox=True, fresh=fresh)

    assert expected == actual


def test_what_is_tried_succeeds_without_a_sandbox() -> None:
    found = isolation.tried(cells.here(), HARMLESS, sandbox=False, fresh=False)

    assert [name for name, signs in found.items() if not signs] == []


@bubblewrap
def test_no_case_reaches_its_neighbour() -> None:
    expected: isolation.Signs = {one.name: [] for one in PAIRS}
    actual = isolation.disturbed(cells.here(), PAIRS, sandbox=True)

    assert expected == actual


@bubblewrap
def test_a_walled_cell_has_its_own_loopback_and_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    thought = f"/tmp/mine-{os.getpid()}"  # noqa: S108 - where the case thinks it writes
    path.write_text(
        "import multiprocessing, os, socket, tempfile\n"
        "with socket.create_server(('127.0.0.1', 0)) as there:\n"
        "    socket.create_connection(there.getsockname()).close()\n"
        "multiprocessing.Lock()\n"
        "assert os.getcwd() == os.environ['TMPDIR'] == tempfile.gettempdir()\n"
        f"open({thought!r}, 'w').close(), open('mine', 'w').close()\n"
        "assert os.listdir() == ['mine']\n"
        f"measured = {{'user': os.getuid() == {os.getuid()}}}\n"
    )
    with cells.worker(cells.here(), [path], sandbox=True) as worker:
        answer = cells.said(worker, cells.request(path))[0]

    assert (answer["outcome"], answer.get("message")) == ("passes", None)
    assert not Path(thought).exists()


def test_a_search_path_of_the_user_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert tmp_path not in sandbox.reads.__wrapped__(Path(sys.executable))


@bubblewrap
def test_a_walled_worker_that_is_killed_says_by_what(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text("import time\ntime.sleep(600)\n")
    with cells.worker(cells.here(), [path], sandbox=True) as worker:
        assert worker.process is not None
        answers = worker.run([cells.request(path)])
        worker.process.kill()
        with pytest.raises(Exception, match="it ended with signal SIGKILL"):
            next(answers)


@pytest.mark.parametrize("walls", [pytest.param(True, marks=bubblewrap), False])
def test_a_fork_bomb_disturbs_no_neighbour(*, walls: bool) -> None:
    if not cgroup.can_count():
        pytest.skip("nothing but a look 20 times a second bounds processes here")
    found = bombs.exploded(cells.here(), ["forks in sessions of their own"], sandbox=walls)

    assert found.ended == {"forks in sessions of their own": ("crashes", "TooManyProcesses")}
    assert (found.spared, found.wrong) == (2 * len(bombs.NEIGHBOURS), [])


@pytest.mark.parametrize(
    ("asked", "ci", "trouble", "told"),
    [
        (True, "", "", "Sandboxed: "),
        (None, "true", "", "Sandboxed: "),
        (None, "true", "no bwrap", "Not sandboxed: "),
        (None, "", "", "Not sandboxed: "),
        (False, "true", "", "Not sandboxed: "),
    ],
)
def test_a_run_says_whether_it_is_sandboxed(
    asked: bool | None,  # noqa: FBT001 - an option that may be left out
    ci: str,
    trouble: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(sandbox, "trouble", _says(trouble))
    lines: list[str] = []
    holds = decide_sandbox(asked, lines.append)

    assert (holds, True) == (told == "Sandboxed: ", lines[0].startswith(told))
    assert trouble in lines[0]


def _says(text: str) -> Callable[[], str]:
    return lambda: text
