"""The sandbox, tried: no case gets out of it, and what it holds is said before a run."""

from __future__ import annotations

import builtins
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import cells
import pytest
from cells import Ground
from escapes import ESCAPES, PAIRS, Escape, Pair, World, world
from needs import bubblewrap

from repromatrix.runner.cli.options import decide_sandbox
from repromatrix.runner.execution import sandbox
from repromatrix.runner.execution.worker_client import Worker

HARMLESS = [one for one in ESCAPES if one.harmless and (os.getuid() == 0 or not one.root)]


Signs = dict[str, list[str]]
"""What shows that an escape succeeded, by its name."""


def tried(ground: Ground, escapes: Iterable[Escape], *, sandbox: bool, fresh: bool) -> Signs:
    """Let a case try each, forked or in a fresh process; return what shows that it got through."""
    found: Signs = {}
    with (
        world(ground.site_packages, ground.library) as around,
        tempfile.TemporaryDirectory() as folder,
    ):
        left = {}
        for number, one in enumerate(escapes):
            left[one.name] = Path(folder) / f"escape_{number}.py"
            left[one.name].write_text(one.case(around))
        while left:
            with cells.worker(ground, list(left.values()), sandbox=sandbox) as worker:
                for name in list(left):
                    found[name], lost = _signs(worker, around, left.pop(name), fresh=fresh)
                    if lost:
                        break
    return found


def _signs(worker: Worker, around: World, path: Path, *, fresh: bool) -> tuple[list[str], bool]:
    """Return what shows that one got through, and whether it cost the worker."""
    before = path.read_text()
    answers = cells.said(worker, cells.request(path, fresh=fresh))
    lost = cells.LOST in answers
    found = ["it ended its worker"] if lost else []
    for answer in answers.values():
        found += around.signs(f"{answer['output']} {answer.get('message', '')}")
        if not _is_refusal(answer):
            found.append(f"it tried nothing: {answer.get('reason') or answer.get('message')}")
    if path.read_text() != before:
        found.append("it changed its script")
    return found, lost


def _is_refusal(answer: Mapping[str, Any]) -> bool:
    """Say whether an attempt ended as one that is refused does, and not by a fault of its own."""
    if answer["outcome"] != "fails":
        return answer["outcome"] in {"passes", "crashes", "lost"}
    known = getattr(builtins, answer["error_class"], None)
    refused = isinstance(known, type) and issubclass(known, OSError)
    return refused or answer["error_class"] == "gaierror"


def disturbed(ground: Ground, pairs: Iterable[Pair], *, sandbox: bool) -> Signs:
    """Let a case run beside its neighbour, or before it; return what shows in the neighbour."""
    found: Signs = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, pair in enumerate(pairs):
            first, second = (Path(folder) / f"{name}_{number}.py" for name in ("does", "suffers"))
            first.write_text(pair.does)
            second.write_text(pair.suffers)
            slots = 1 if pair.behind else 2
            with cells.worker(ground, [first, second], sandbox=sandbox, slots=slots) as one:
                requests = [cells.request(first, 1), cells.request(second, 2)]
                answers = cells.said(one, *requests, ahead=2)
            second_answer = answers.get(2, {"outcome": "lost", "output": ""})
            outcome = second_answer["outcome"]
            signs = [] if outcome == "passes" else [f"its neighbour {outcome}"]
            found[pair.name] = [
                *signs,
                *(["it said so"] if "escaped" in second_answer["output"] else []),
            ]
    return found


@bubblewrap
@pytest.mark.parametrize("fresh", [False, True])
def test_no_case_escapes(*, fresh: bool) -> None:
    some = ESCAPES[::4] if fresh else ESCAPES  # a fresh interpreter takes its time

    assert tried(cells.here(), some, sandbox=True, fresh=fresh) == {one.name: [] for one in some}


def test_what_is_tried_succeeds_without_a_sandbox() -> None:
    found = tried(cells.here(), HARMLESS, sandbox=False, fresh=False)

    assert [name for name, signs in found.items() if not signs] == []


@bubblewrap
def test_no_case_reaches_its_neighbour() -> None:

    assert disturbed(cells.here(), PAIRS, sandbox=True) == {one.name: [] for one in PAIRS}


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
