"""The worker and its runner's end, with an interpreter that has nothing installed to import."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import venv
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from cells import case, request
from fakes import is_alive, processes_of
from needs import bubblewrap
from programs import started, wait_until

from repromatrix.runner.environments.building import Built
from repromatrix.runner.execution import worker_client
from repromatrix.runner.execution.worker_client import Start, Worker, WorkerError
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import ROOT
from repromatrix.runner.tempdirs import sweep
from repromatrix.runner.worker import process_control
from repromatrix.runner.worker.cell_process import CellProcess
from repromatrix.runner.worker.main import BOOT, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from repromatrix.runner.worker.cell import Request
    from repromatrix.runner.worker.main import ForkServer

    Starter = Callable[..., Worker]

NOTHING: dict[str, object] = {"modules": [], "names": {}}

with_walls_and_without = pytest.mark.parametrize(
    "walls", [False, pytest.param(True, marks=bubblewrap)]
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let everything temporary lie in one folder, of which nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = process_control.children(os.getpid())
    yield folder
    left = [pid for pid in process_control.children(os.getpid()) if pid not in before]

    assert (sorted(folder.iterdir()), processes_of(folder), left) == ([], [], [])


@pytest.fixture
def start() -> Iterator[Starter]:
    """Start workers of this interpreter, and close them at the end."""
    started: list[Worker] = []

    def begin(
        python: Path = Path(sys.executable),
        *,
        preload: dict[str, object] = NOTHING,
        folder: Path = Path(sys.prefix),
        fork: bool = True,
        slots: int = 1,
        **more: Any,  # noqa: ANN401 - what a Start takes
    ) -> Worker:
        built = Built(name="here", folder=folder, python=python, versions={})
        terms = Start(
            built=built,
            device=Device.CPU,
            preload=preload,
            fork=fork,
            slots=slots,
            **more,
        )
        started.append(Worker(terms))
        return started[-1]

    yield begin
    for worker in started:
        worker.close()


def python(folder: Path, *lines: str) -> Path:
    """Return a program that can stand where an environment's python stands."""
    path = folder / "python"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def test_long_cases_with_much_to_say_fill_no_pipe_that_nobody_reads(
    start: Starter, tmp_path: Path
) -> None:
    text = "print('x' * 15000)\n" + "# a long case\n" * 600
    path = case(tmp_path, "raise SystemExit(3)")
    worker = start(slots=32, texts={str(path): text})
    requests = [request(path, number) for number in range(100)]

    assert {answer["outcome"] for _, answer in worker.run(requests, ahead=36)} == {"passes"}


@pytest.mark.parametrize("fresh", [False, True])
def test_what_looks_up_its_own_source_finds_the_lines_that_python_counted(
    start: Starter,
    tmp_path: Path,
    fresh: bool,  # noqa: FBT001
) -> None:
    text = (
        "import inspect\n"
        "odd = '\u2028\x85'\n\x0c\n"
        "def two(): return 2\n"
        "assert inspect.getsource(two) == 'def two(): return 2\\n'\n"
    )
    path = case(tmp_path, "raise SystemExit(3)")
    worker = start(texts={str(path): text})
    (answer,) = [one for _, one in worker.run([request(path, fresh=fresh)])]

    assert answer["outcome"] == "passes", answer


@with_walls_and_without
@pytest.mark.parametrize("fresh", [False, True])
def test_an_environment_with_a_space_in_its_path_is_reached_by_one_without(
    start: Starter,
    tmp_path: Path,
    fresh: bool,  # noqa: FBT001
    walls: bool,  # noqa: FBT001
) -> None:
    folder = tmp_path / "a b" / "environment"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "linker.py").write_text("def options(): raise ValueError(__file__)\n")
    path = case(
        tmp_path,
        "import os, sys, linker",
        "assert len(f'{sys.prefix}{linker.__file__}'.split()) == 1, linker.__file__",
        "assert not os.environ.get('WALLS') or not os.access(linker.__file__, os.W_OK)",
        "linker.options()",
    )
    worker = start(folder / "bin" / "python", folder=folder, sandbox=walls, cases=[path])
    environ = {"WALLS": "1"} if walls else {}
    (answer,) = [one for _, one in worker.run([request(path, fresh=fresh, environ=environ)])]

    assert (answer["error_class"], answer["message"]) == ("ValueError", str(packages / "linker.py"))
    assert f'File "{packages / "linker.py"}"' in answer["traceback"]


def test_a_worker_that_reads_nothing_is_not_written_to_for_ever(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start()
    assert worker.process is not None
    os.kill(worker.process.pid, signal.SIGSTOP)
    monkeypatch.setattr(worker_client, "_GRACE", 0.5)
    long = request(case(tmp_path), environ={"LONG": "x" * (1 << 20)})
    try:
        with pytest.raises(WorkerError, match="it has read nothing for 0 s"):
            list(worker.run([long]))
    finally:
        os.kill(worker.process.pid, signal.SIGKILL)


def test_an_import_that_fails_leaves_nothing_half_done_behind(
    start: Starter, tmp_path: Path
) -> None:
    preload = {"modules": ["asyncio.windows_events", "wave"], "names": {}}
    worker = start(preload=preload)
    path = case(
        tmp_path,
        "import sys",
        "measured = {name: 1 for name in ('asyncio', 'wave') if name in sys.modules}",
    )
    (answer,) = [answer for _, answer in worker.run([request(path)])]

    assert (worker.refused, answer["measured"]) == (["asyncio.windows_events"], {"wave": 1.0})


def test_a_module_that_an_environment_does_not_have_is_no_failure_of_its_import(
    start: Starter,
) -> None:
    absent = ["json.absent", "json.absent.below", "absent", "absent.below", "json.decoder.below"]
    worker = start(preload={"modules": [*absent, "wave"], "names": {}})

    assert worker.refused == []


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
    worker = start(here, preload={"modules": ["lazily"], "names": names})

    assert worker.refused == ["lazily.Broken"]


@pytest.mark.parametrize(("then", "refused"), [("", []), ("; 1 // 0", [TABLE])])
def test_the_table_that_loading_a_model_fills_is_filled_before_the_fork(
    start: Starter, tmp_path: Path, then: str, refused: list[str]
) -> None:
    package = tmp_path / "transformers"
    package.mkdir()
    filling = f"def get_checkpoint_conversion_mapping(of): asked.append(of){then}"
    (package / "conversion_mapping.py").write_text(f"asked = []\n{filling}\n")
    (package / "__init__.py").write_text("from transformers import conversion_mapping\n")
    here = python(tmp_path, f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    worker = start(here, preload={"modules": ["transformers"], "names": {}})
    path = case(
        tmp_path,
        "import sys",
        f"measured = {{'asked': float(len(sys.modules['{TABLE}'].asked))}}",
    )
    (answer,) = [answer for _, answer in worker.run([request(path)])]

    assert (worker.refused, answer["measured"]) == (refused, {"asked": float(not then)})


def test_a_worker_with_a_second_thread_runs_its_cells_in_fresh_interpreters(
    start: Starter, tmp_path: Path
) -> None:
    case(
        tmp_path,
        "import threading",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        name="restless",
    )
    here = python(tmp_path, f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    worker = start(here, preload={"modules": ["restless"], "names": {}})
    path = case(tmp_path, "import sys", "measured = {'shared': float('restless' in sys.modules)}")
    (answer,) = [answer for _, answer in worker.run([request(path)])]

    assert (worker.hello["threads"], answer["outcome"], answer["measured"]) == (
        2,
        "passes",
        {"shared": 0.0},
    )


@pytest.mark.parametrize("fork", [True, False])
def test_a_case_sees_what_it_would_see_as_a_script(
    start: Starter, tmp_path: Path, *, fork: bool
) -> None:
    path = case(
        tmp_path,
        "import json, os, sys",
        "print(json.dumps([__name__, __file__, sys.argv, os.environ['REPRO_DEVICE'],",
        "    os.listdir(), os.getcwd() == os.environ['TMPDIR'], 'repromatrix' in sys.modules]))",
    )
    worker = start(fork=fork)
    (answer,) = [answer for _, answer in worker.run([request(path, workaround="around")])]

    assert json.loads(answer["output"]) == [
        "__main__",
        str(path),
        [str(path), "fp32", "around"],
        "cpu",
        [],
        True,
        False,
    ]


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

    assert {number: answer["measured"] for number, answer in answers.items()} == {
        7: {"bf16": 1.0},
        8: {"fp16": 1.0},
    }


def test_a_killed_worker_is_told_and_everything_below_it_ends(
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
    worker = start(slots=2)
    with pytest.raises(WorkerError) as caught:
        list(worker.run([request(leaves, 1), request(kills, 2)]))
    worker.close()

    assert str(caught.value) == "it ended with signal SIGKILL"
    assert not is_alive(int(pid.read_text()))


def test_a_worker_that_died_between_two_batches_is_told(start: Starter, tmp_path: Path) -> None:
    worker = start()
    assert worker.process is not None
    os.kill(worker.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(WorkerError) as caught:
        list(worker.run([request(case(tmp_path, "pass"))]))

    assert str(caught.value) == "it ended with signal SIGKILL"


def test_a_python_that_cannot_start_says_why_and_leaves_nothing(
    start: Starter, tmp_path: Path
) -> None:
    here = python(tmp_path, "echo 'error while loading shared libraries' >&2", "exit 127")
    with pytest.raises(WorkerError) as caught:
        start(here)

    assert str(caught.value) == "it ended with exit code 127: error while loading shared libraries"


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
    worker = start(slots=2)
    answers = worker.run([request(path, 1), request(quick, 2)])
    number, answer = next(answers)
    worker.close()

    assert (number, answer["outcome"]) == (2, "passes")


@with_walls_and_without
def test_a_runner_that_is_killed_takes_its_worker_and_its_cells_with_it(
    tmp_path: Path, temporary: Path, *, walls: bool
) -> None:
    path = case(tmp_path, "import time", "time.sleep(600)")
    terms = f"slots=1, sandbox={walls}, cases=[pathlib.Path(r'{path}')]"
    begin = f"list(Worker(terms).run([{request(path)!r}]))"
    runner, root = runner_of(tmp_path, temporary, terms, begin)
    with started([sys.executable, runner], env={**os.environ, "PYTHONPATH": root}) as process:
        wait_until(lambda: list(temporary.glob("*/cells/cell-*")))
        time.sleep(0.2)
        process.kill()
    wait_until(lambda: not processes_of(temporary))
    wait_until(lambda: _is_swept(temporary))

    assert process.returncode == -signal.SIGKILL


KILLED_AT_ONCE = [
    "import os, signal, subprocess",
    "class Begun(subprocess.Popen):",
    "    def __init__(self, command, **options):",
    "        super().__init__(command, **options)",
    "        if 'serve' in command: os.kill(os.getpid(), signal.SIGKILL)",
    "subprocess.Popen = Begun",
]


@with_walls_and_without
@pytest.mark.parametrize("begins", [[], KILLED_AT_ONCE], ids=["within them", "before them"])
def test_a_runner_that_is_killed_ends_a_worker_in_the_middle_of_its_imports(
    begins: list[str], tmp_path: Path, temporary: Path, *, walls: bool
) -> None:
    begun = tmp_path / "kept" / "begun"
    begun.parent.mkdir()
    module = f"import pathlib, time; pathlib.Path(r'{begun}').touch(); time.sleep(600)"
    (tmp_path / "slow_to_import.py").write_text(module)
    preload = {"modules": ["slow_to_import"], "names": {}}
    front = {"path": str(tmp_path), "kept": str(tmp_path / "kept")}
    terms = f"slots=1, sandbox={walls}, preload={preload!r}, front={front!r}"
    begin = [*begins, "Worker(terms)"]
    runner, root = runner_of(tmp_path, temporary, terms, *begin)
    with started([sys.executable, runner], env={**os.environ, "PYTHONPATH": root}) as process:
        wait_until(lambda: begun.exists() or process.poll() is not None)
        process.kill()
    wait_until(lambda: not processes_of(temporary))
    wait_until(lambda: _is_swept(temporary))

    assert process.returncode == -signal.SIGKILL


@with_walls_and_without
def test_a_worker_in_the_middle_of_its_imports_ends_when_nobody_waits_for_it(
    start: Starter, tmp_path: Path, *, walls: bool
) -> None:
    begun = tmp_path / "kept" / "begun"
    begun.parent.mkdir()
    module = f"import pathlib, time; pathlib.Path(r'{begun}').touch(); time.sleep(600)"
    (tmp_path / "slow_to_import.py").write_text(module)
    preload: dict[str, object] = {"modules": ["slow_to_import"], "names": {}}
    front = {"path": str(tmp_path), "kept": str(tmp_path / "kept")}
    with ThreadPoolExecutor(1) as waiting:
        worker = waiting.submit(start, preload=preload, front=front, sandbox=walls)
        wait_until(begun.exists)
        said = ended(worker)

    assert said.startswith("it ended with signal SIGKILL")


def test_a_worker_that_is_ended_as_it_starts_leaves_nobody_who_holds_its_pipe(
    start: Starter, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    forks = python(tmp_path, "sleep 600 &", f"touch '{begun}'", "wait")
    with ThreadPoolExecutor(1) as waiting:
        worker = waiting.submit(start, forks)
        wait_until(begun.exists)
        said = ended(worker)

    assert said == "it ended with signal SIGKILL"


def ended(worker: Future[Worker]) -> str:
    """End a worker that starts, as the pool does, until it is known to us; return what it said."""

    def is_over() -> bool:
        worker_client.end_starting()
        return worker.done()

    wait_until(is_over)
    return str(worker.exception(timeout=0))


def runner_of(tmp_path: Path, temporary: Path, terms: str, *begin: str) -> tuple[Path, str]:
    """Write a program that has a worker, and return it with what it needs on its path."""
    path = case(
        tmp_path,
        "import sys, tempfile, pathlib",
        f"tempfile.tempdir = r'{temporary}'",
        "from repromatrix.runner.execution.worker_client import Start, Worker",
        "from repromatrix.runner.environments.building import Built",
        "from repromatrix.runner.model.outcomes import Device",
        "here = pathlib.Path(sys.executable)",
        "built = Built(name='here', folder=here.parent, python=here, versions={})",
        f"own = dict({terms})",
        f"own = {{'preload': {NOTHING!r}}} | own",
        "terms = Start(built=built, device=Device.CPU, fork=True, **own)",
        *begin,
        name="runs",
    )
    return path, str(Path(process_control.__file__).parents[3])


def _is_swept(folder: Path) -> bool:
    """Sweep; a lock is freed a moment after its process has been seen for the last time."""
    sweep()
    return not list(folder.iterdir())


def test_a_cell_that_ended_in_time_is_not_too_late_because_it_is_looked_at_late(
    tmp_path: Path,
) -> None:
    others = set(process_control.children(os.getpid()))
    server = SimpleNamespace(
        boot=[sys.executable, "-c", BOOT, str(ROOT)],
        namespaces=None,
        texts={},
        rest=lambda *_: set(),
    )
    asked = request(case(tmp_path), fresh=True, seconds=1)
    running = CellProcess(cast("Request", asked), cast("ForkServer", server))
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    time.sleep(max(0.0, running.began + 1.1 - time.monotonic()))  # a machine that is busy
    ended = running.tend()
    answer = running.finish(others)
    shutil.rmtree(running.folder)

    assert (ended, answer["outcome"]) == (True, "passes")


def test_a_cell_that_closed_its_output_costs_no_time_while_it_runs(
    start: Starter, tmp_path: Path
) -> None:
    path = case(tmp_path, "import os, time", "os.closerange(1, 3)", "time.sleep(1)")
    worker = start()
    assert worker.process is not None
    spent = Path(f"/proc/{worker.process.pid}/stat")

    def ticks() -> int:
        user, system = spent.read_text().rpartition(")")[2].split()[11:13]
        return int(user) + int(system)

    before = ticks()
    (answer,) = [answer for _, answer in worker.run([request(path)])]

    assert answer["outcome"] == "passes"
    assert ticks() - before < 0.3 * os.sysconf("SC_CLK_TCK")


def test_what_a_cell_held_at_most_is_told_though_nobody_looked(
    start: Starter, tmp_path: Path
) -> None:
    path = case(tmp_path, "kept = b'x' * (300 << 20)", "del kept")
    (answer,) = [answer for _, answer in start().run([request(path)])]

    assert 280 < answer["peak"] < 340


def test_what_cells_share_is_empty_whatever_the_one_before_left(
    start: Starter, tmp_path: Path
) -> None:
    path = case(
        tmp_path,
        "import os, pathlib",
        "for name in ('HOME', 'HF_HOME'):",
        "    folder = pathlib.Path(os.environ[name])",
        "    assert not list(folder.iterdir()), f'{name} has something'",
        "    (folder / 'left').mkdir()",
        "    (folder / 'left' / 'behind').write_text('mixed_precision: fp16')",
    )
    requests = [request(path, number, fresh=number == 2) for number in range(4)]
    found = dict(start(slots=2).run(requests, 1))

    assert {number: answer["outcome"] for number, answer in found.items()} == dict.fromkeys(
        range(4), "passes"
    )


BROKEN = {
    "what reads it": "import traceback, json\ntraceback.walk_tb = json.dumps = None",
    "its encoder": "import json\njson.JSONEncoder.encode = json.JSONEncoder.iterencode = None",
    "os": "import os\nos._exit = os.write = os.open = None",
    "its clocks": "import time\ntime.perf_counter = time.process_time = time.monotonic = None",
    "its threads": "import threading\nthreading._shutdown = None",
    "its streams": "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = object()",
    "modules": "import sys\nsys.modules.clear()",
    "names": "import builtins\nbuiltins.str = builtins.isinstance = builtins.dict = None",
    "signals": "import signal\ndef handler(*_): raise OSError\n"
    "signal.signal(signal.SIGALRM, handler)\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.02, 0.0005)",
    "memory": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))",
}


def test_a_case_that_breaks_what_its_report_is_made_with_ends_as_it_did(
    start: Starter, tmp_path: Path
) -> None:
    endings = {"passes": "", "raises": "raise KeyError('mine')"}
    names = [(what, how) for what in BROKEN for how in endings]
    requests = [
        request(case(tmp_path, BROKEN[what], endings[how], name=f"case_{number}"), number)
        for number, (what, how) in enumerate(names)
    ]
    answers = dict(start().run(requests))
    told = {
        name: (answers[number]["outcome"], answers[number]["exit"])
        for number, name in enumerate(names)
    }

    assert told == {
        (what, how): ("passes", 0) if how == "passes" else ("fails", 1) for what, how in names
    }


def test_a_process_that_a_case_forked_does_not_report_for_it(
    start: Starter, tmp_path: Path
) -> None:
    path = case(
        tmp_path,
        "import os",
        "child = os.fork()",
        "if child:",
        "    measured = {'child': os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}",
        "else:",
        "    raise SystemExit(7)",
    )
    (answer,) = [answer for _, answer in start().run([request(path)])]

    assert (answer["outcome"], answer["measured"]) == ("passes", {"child": 7.0})


def test_a_report_cannot_speak_for_another_cell(start: Starter, tmp_path: Path) -> None:
    path = case(
        tmp_path,
        "import gc, json, os",
        "cells = [f.cell_contents for g in gc.get_objects() if type(g).__name__ == 'function'",
        "    and g.__name__ == 'send' for f in g.__closure__]",
        "nonce = next(c for c in cells if isinstance(c, bytes))",
        "channel = next(c for c in cells if isinstance(c, int))",
        "report = {'exit': 0, 'id': 77, 'wall': -1, 'output': 'forged'}",
        "os.write(channel, nonce + json.dumps(report).encode())",
        "os._exit(0)",
    )
    ((number, answer),) = list(start().run([request(path, 5)]))

    assert (number, answer["output"], answer["wall"] > 0) == (5, "", True)


def _with_another(tmp_path: Path, rank_0: str, rank_1: str) -> Path:
    """Write a case that forks another process: each does one thing."""
    return case(
        tmp_path,
        "import multiprocessing, os, signal, time",
        "context = multiprocessing.get_context('fork')",
        "def rank(number):",
        f"    {rank_1}",
        "other = context.Process(target=rank, args=(1,))",
        "other.start()",
        rank_0,
        "other.join()",
        name=f"other_{len(rank_0)}",
    )


def test_the_folder_of_a_cell_is_its_users_alone_and_has_a_name_of_its_own(
    start: Starter, tmp_path: Path
) -> None:
    code = (
        "print([oct(p.stat().st_mode & 0o777) for p in (Path(), Path('../..'))], Path().resolve())"
    )
    path = case(tmp_path, "from pathlib import Path", code)
    said = [one["output"] for _, one in start().run([request(path, 0), request(path, 1)])]
    modes, names = zip(*(text.strip().rsplit(" ", 1) for text in said), strict=True)

    assert set(modes) == {"['0o700', '0o700']"}
    assert len(set(names)) == 2


FILES = {
    "one": "Path('large').write_bytes(bytes(MUCH))",
    "many": "[Path(str(n)).write_bytes(bytes(MUCH // 64)) for n in range(64)]",
    "below": "Path('a/b').mkdir(parents=True); Path('a/b/c').write_bytes(bytes(MUCH))",
}


@with_walls_and_without
def test_cells_whose_files_take_too_much_of_the_disk_are_ended_alone(
    start: Starter, tmp_path: Path, *, walls: bool
) -> None:
    lines = ("import time", "from pathlib import Path", "MUCH = 16 << 20")
    takes = [case(tmp_path, *lines, FILES[kind], "time.sleep(60)", name=kind) for kind in FILES]
    waits = case(tmp_path, "import time", "time.sleep(3)", name="waits")
    worker = start(slots=5, sandbox=walls, cases=[*takes, waits])
    wanted = [request(path, number, disk=15) for number, path in enumerate([*takes, waits])]
    answers = dict(worker.run([*wanted, request(takes[0], 4, seconds=3)]))
    ended = {number: (one["outcome"], one.get("message")) for number, one in answers.items()}
    too_much = ("crashes", "its files took more of the disk than a cell may have")

    assert ended == {
        **dict.fromkeys(range(3), too_much),
        3: ("passes", None),
        4: ("times-out", None),
    }


@contextlib.contextmanager
def crowded() -> Iterator[int]:
    """Yield a core that three programs want for as long as the block takes."""
    core = min(os.sched_getaffinity(0))
    spins = f"import os, signal; signal.alarm(60); os.sched_setaffinity(0, {{{core}}})\nwhile 1: 0"
    with contextlib.ExitStack() as stack:
        command = [sys.executable, "-I", "-S", "-c", spins]
        others = [stack.enter_context(started(command)) for _ in range(3)]
        for other in others:
            stack.callback(other.kill)
        wait_until(lambda: all(os.sched_getaffinity(one.pid) == {core} for one in others))
        yield core


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells how long a process waited")
@pytest.mark.parametrize(
    "walls", [pytest.param(False, marks=pytest.mark.whole), pytest.param(True, marks=bubblewrap)]
)
def test_the_time_in_which_others_have_the_core_is_none_of_a_cell(
    start: Starter, tmp_path: Path, *, walls: bool
) -> None:
    with crowded() as core:
        here = (f"import os; os.sched_setaffinity(0, {{{core}}})", "import time")
        longer = ("until = time.monotonic() + 2.5", "while time.monotonic() < until: pass")
        works = case(tmp_path, *here, *longer, name="works")
        sleeps = case(tmp_path, *here, "time.sleep(60)", name="sleeps")
        spins = case(tmp_path, *here, "while True: pass", name="spins")
        worker = start(slots=1, sandbox=walls, cases=[works, sleeps, spins])
        wanted = [request(works, 0, seconds=2), request(sleeps, 1, seconds=1)]
        answers = dict(worker.run([*wanted, request(spins, 2, seconds=0.3)]))

    ended = {number: one["outcome"] for number, one in answers.items()}
    assert ended == {0: "passes", 1: "times-out", 2: "times-out"}
    assert answers[0]["wall"] > 2, "it ended within its limit"


@with_walls_and_without
def test_of_two_ranks_neither_outlives_the_other(
    start: Starter, tmp_path: Path, temporary: Path, *, walls: bool
) -> None:
    killed = "os.kill(os.getpid(), signal.SIGKILL)"
    waits = _with_another(tmp_path, "time.sleep(600)", killed)
    dies = _with_another(tmp_path, killed, "time.sleep(600)")
    worker = start(sandbox=walls, cases=[waits, dies])

    answers = dict(worker.run([request(waits, 1, seconds=2), request(dies, 2)]))
    worker.close()

    ended = {number: answer["outcome"] for number, answer in answers.items()}
    assert ended == {1: "times-out", 2: "crashes"}
    wait_until(lambda: not processes_of(temporary))
