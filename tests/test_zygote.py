"""The zygote and its runner's end, with an interpreter that has nothing installed to import."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fakes import is_alive, processes_of

from runner.engine.zygote import Start, Zygote, ZygoteError
from runner.environments.building import Built
from runner.inside import cage
from runner.inside.slot import classify
from runner.model.outcomes import Device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Starter = Callable[..., Zygote]

NOTHING: dict[str, object] = {"modules": [], "names": {}}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let everything temporary lie in one folder, of which nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = cage.children(os.getpid())
    yield folder
    left = [pid for pid in cage.children(os.getpid()) if pid not in before]

    assert (sorted(folder.iterdir()), processes_of(folder), left) == ([], [], [])


@pytest.fixture
def start() -> Iterator[Starter]:
    """Start zygotes of this interpreter, and close them at the end."""
    started: list[Zygote] = []

    def begin(
        python: Path = Path(sys.executable),
        *,
        preload: dict[str, object] = NOTHING,
        fork: bool = True,
        slots: int = 1,
        front: dict[str, str] | None = None,
    ) -> Zygote:
        built = Built(name="here", folder=Path(sys.prefix), python=python, versions={})
        terms = Start(
            built=built,
            device=Device.CPU,
            preload=preload,
            fork=fork,
            slots=slots,
            threads=1,
            front=front,
        )
        started.append(Zygote(terms))
        return started[-1]

    yield begin
    for zygote in started:
        zygote.close()


def case(folder: Path, *lines: str, name: str = "case") -> Path:
    path = folder / f"{name}.py"
    path.write_text("\n".join([*lines, ""]))
    return path


def request(path: Path, number: int = 0, **changed: object) -> dict[str, Any]:
    return {
        "id": number,
        "case": str(path),
        "precision": "fp32",
        "workaround": "",
        "device": "cpu",
        "exercises": "compute",
        "fresh": False,
        "witness": True,
        "seconds": 20,
        "memory": 512,
        "threads": 1,
        "front": None,
        **changed,
    }


def python(folder: Path, *lines: str) -> Path:
    """Return a program that can stand where an environment's python stands."""
    path = folder / "python"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def test_an_import_that_fails_leaves_nothing_half_done_behind(
    start: Starter, tmp_path: Path
) -> None:
    preload = {"modules": ["asyncio.windows_events", "wave"], "names": {}}
    zygote = start(preload=preload)
    path = case(
        tmp_path,
        "import sys",
        "measured = {name: 1 for name in ('asyncio', 'wave') if name in sys.modules}",
    )
    (answer,) = [answer for _, answer in zygote.run([request(path)])]

    expected = (["asyncio.windows_events"], {"wave": 1.0})
    actual = (zygote.refused, answer["measured"])

    assert expected == actual


def test_a_name_that_cannot_be_resolved_is_left_out_and_one_that_is_absent_is_ignored(
    start: Starter, tmp_path: Path
) -> None:
    case(
        tmp_path,
        "def __dir__(): return ['Broken', 'Sound']",
        "def __getattr__(name): return 1 if name == 'Sound' else 1 // 0",
        name="lazily",
    )
    here = python(tmp_path, f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    names = {"lazily": ["Absent", "Broken", "Sound"]}
    zygote = start(here, preload={"modules": ["lazily"], "names": names})

    expected = ["lazily.Broken"]
    actual = zygote.refused

    assert expected == actual


def test_a_zygote_with_a_second_thread_runs_its_cells_in_fresh_interpreters(
    start: Starter, tmp_path: Path
) -> None:
    case(
        tmp_path,
        "import threading",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        name="restless",
    )
    here = python(tmp_path, f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    zygote = start(here, preload={"modules": ["restless"], "names": {}})
    path = case(tmp_path, "import sys", "measured = {'shared': float('restless' in sys.modules)}")
    (answer,) = [answer for _, answer in zygote.run([request(path)])]

    expected = (2, "passes", {"shared": 0.0})
    actual = (zygote.hello["threads"], answer["outcome"], answer["measured"])

    assert expected == actual


@pytest.mark.parametrize("fork", [True, False])
def test_a_case_sees_what_it_would_see_as_a_script(
    start: Starter, tmp_path: Path, *, fork: bool
) -> None:
    path = case(
        tmp_path,
        "import json, os, sys",
        "print(json.dumps([__name__, __file__, sys.argv, os.environ['REPRO_DEVICE'],",
        "    os.listdir(), os.getcwd() == os.environ['TMPDIR'], 'runner' in sys.modules]))",
    )
    zygote = start(fork=fork)
    (answer,) = [answer for _, answer in zygote.run([request(path, workaround="around")])]

    expected = ["__main__", str(path), [str(path), "fp32", "around"], "cpu", [], True, False]
    actual = json.loads(answer["output"])

    assert expected == actual


def test_settings_of_the_user_reach_no_case(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "PYTHONPATH", "https_proxy", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    path = case(tmp_path, "import os, json", "print(json.dumps(dict(os.environ)))")
    (answer,) = [answer for _, answer in start().run([request(path)])]
    seen = json.loads(answer["output"])

    assert "secret" not in seen.values()
    assert (seen["OMP_NUM_THREADS"], seen["CUDA_VISIBLE_DEVICES"]) == ("1", "")


def test_cells_run_side_by_side_and_each_answer_finds_its_request(
    start: Starter, tmp_path: Path
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    waits = case(
        tmp_path,
        "import os, sys, time",
        f"folder = r'{meeting}'",
        "open(os.path.join(folder, sys.argv[1]), 'w').close()",
        "while len(os.listdir(folder)) < 2: time.sleep(0.01)",
        "measured = {sys.argv[1]: 1}",
    )
    requests = [request(waits, 7, precision="bf16"), request(waits, 8, precision="fp16")]
    answers = dict(start(slots=2).run(requests))

    expected = {7: {"bf16": 1.0}, 8: {"fp16": 1.0}}
    actual = {number: answer["measured"] for number, answer in answers.items()}

    assert expected == actual


def test_a_killed_zygote_is_told_and_everything_below_it_ends(
    start: Starter, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    leaves = case(
        tmp_path,
        "import pathlib, subprocess, sys, time",
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']",
        "below = subprocess.Popen(command, start_new_session=True)",
        f"pathlib.Path(r'{pid}.new').write_text(str(below.pid))",
        f"pathlib.Path(r'{pid}.new').rename(r'{pid}')",
        "time.sleep(600)",
        name="leaves",
    )
    kills = case(
        tmp_path,
        "import os, pathlib, time",
        f"while not pathlib.Path(r'{pid}').exists(): time.sleep(0.01)",
        "os.kill(os.getppid(), 9)",
        "time.sleep(600)",
        name="kills",
    )
    zygote = start(slots=2)
    with pytest.raises(ZygoteError) as caught:
        list(zygote.run([request(leaves, 1), request(kills, 2)]))
    zygote.close()

    expected = "it ended with signal SIGKILL"
    actual = str(caught.value)

    assert expected == actual
    assert not is_alive(int(pid.read_text()))


def test_a_zygote_that_died_between_two_batches_is_told(start: Starter, tmp_path: Path) -> None:
    zygote = start()
    assert zygote.process is not None
    os.kill(zygote.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, zygote.process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ZygoteError) as caught:
        list(zygote.run([request(case(tmp_path, "pass"))]))

    expected = "it ended with signal SIGKILL"
    actual = str(caught.value)

    assert expected == actual


def test_a_python_that_cannot_start_says_why_and_leaves_nothing(
    start: Starter, tmp_path: Path
) -> None:
    here = python(tmp_path, "echo 'error while loading shared libraries' >&2", "exit 127")
    with pytest.raises(ZygoteError) as caught:
        start(here)

    expected = "it ended with exit code 127: error while loading shared libraries"
    actual = str(caught.value)

    assert expected == actual


def test_closing_the_input_ends_what_is_in_flight(start: Starter, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    path = case(
        tmp_path,
        "import pathlib, subprocess, sys, time",
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],",
        "    start_new_session=True)",
        f"pathlib.Path(r'{begun}').touch()",
        "time.sleep(600)",
    )
    quick = case(
        tmp_path,
        "import pathlib, time",
        f"while not pathlib.Path(r'{begun}').exists(): time.sleep(0.01)",
        name="quick",
    )
    zygote = start(slots=2)
    answers = zygote.run([request(path, 1), request(quick, 2)])
    number, answer = next(answers)
    zygote.close()

    assert (number, answer["outcome"]) == (2, "passes")


def test_a_runner_that_is_killed_takes_its_zygote_and_its_cells_with_it(
    tmp_path: Path, temporary: Path
) -> None:
    begun = tmp_path / "begun"
    path = case(
        tmp_path,
        "import pathlib, time",
        f"pathlib.Path(r'{begun}').touch()",
        "time.sleep(600)",
    )
    runner = case(
        tmp_path,
        "import sys, tempfile, pathlib",
        f"tempfile.tempdir = r'{temporary}'",
        "from runner.engine.zygote import Start, Zygote",
        "from runner.environments.building import Built",
        "from runner.model.outcomes import Device",
        "here = pathlib.Path(sys.executable)",
        "built = Built(name='here', folder=here.parent, python=here, versions={})",
        f"terms = Start(built=built, device=Device.CPU, preload={NOTHING!r}, fork=True,",
        "    slots=1, threads=1)",
        f"list(Zygote(terms).run([{request(path)!r}]))",
        name="runs",
    )
    root = str(Path(cage.__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, runner], env={**os.environ, "PYTHONPATH": root}
    ) as process:
        wait_until(begun.exists)
        process.kill()
    wait_until(lambda: not processes_of(temporary))
    for left in temporary.iterdir():
        shutil.rmtree(left)

    assert process.returncode == -signal.SIGKILL


def wait_until(true: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("stopped", "status", "report", "expected"),
    [
        ("", 0, {"exit": 0}, "passes"),
        ("", 0, {"exit": False}, "passes"),
        ("", 0, {"exit": 125}, "declines"),
        ("", 0, {"exit": 1}, "fails"),
        ("", 0, {"exit": None}, "fails"),
        ("", 0, None, "fails"),
        ("", signal.SIGKILL, None, "crashes"),
        ("", signal.SIGKILL, {"exit": 0}, "passes"),
        ("times-out", signal.SIGKILL, None, "times-out"),
        ("times-out", signal.SIGKILL, {"exit": 0}, "times-out"),
        ("out-of-memory", signal.SIGKILL, None, "out-of-memory"),
        ("", 0, {"exit": 1, "error_class": "MemoryError"}, "out-of-memory"),
        ("", 0, {"exit": 1, "error_class": "OutOfMemoryError"}, "out-of-memory"),
        (
            "",
            0,
            {
                "exit": 1,
                "error_class": "RuntimeError",
                "message": "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried",
            },
            "out-of-memory",
        ),
    ],
)
def test_how_a_process_ended_and_what_it_said_make_its_outcome(
    stopped: str, status: int, report: dict[str, Any] | None, expected: str
) -> None:
    actual = classify(stopped, status, report)["outcome"]

    assert expected == actual
