"""What a script or a person sees of the program through nox: outputs, exit codes, signals."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case_text
from needs import bubblewrap
from programs import PATIENCE, finished, ignoring_sigint, started, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.paths import Paths

    Start = Callable[[Sequence[str | Path]], list[str | Path]]

pytestmark = pytest.mark.door

ROOT = Path(__file__).parents[2]
COLUMNS = (
    "case,workaround,release,precision,device,outcome,verdict,error,exercised,"
    "transformers,accelerate,peft,torch,seconds"
)
DOCUMENTED = '"""A toy must not break. It is a toy."""\n\n'

# fp32 ends at once; bf16 begins to sleep and then never ends, whatever it is told.
HANGS = (
    DOCUMENTED
    + """import signal
import subprocess
import sys

if sys.argv[1] != "fp32":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        subprocess.run(["sleep", "4321"])
"""
)


@dataclass(frozen=True, kw_only=True)
class Door:
    """nox, with state of its own; every process behind it has `mark` in its PATH."""

    folder: Path
    environ: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "nox", *arguments]

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return finished(self.command(*arguments), cwd=ROOT, env=self.environ | variables)

    def stored(self) -> list[tuple[str, str]]:
        """Return precision and outcome of every stored cell; nothing while there is no store."""
        rows: list[tuple[str, str]] = []
        for store in self.folder.glob("*evidence.sqlite"):
            with contextlib.suppress(sqlite3.OperationalError):
                database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
                with contextlib.closing(database):
                    rows += database.execute("SELECT precision, outcome FROM cells").fetchall()
        return rows

    def processes(self) -> dict[int, str]:
        """Return the processes that were started behind this door: PATH is handed on to all."""
        return dict(_marked(str(self.folder).encode()))

    def end(self) -> None:
        """Kill whatever a test that went wrong has left behind."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _marked(mark: bytes) -> Iterator[tuple[int, str]]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes():
                yield int(process.name), (process / "cmdline").read_text().replace("\0", " ")


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    own = {
        "REPROMATRIX_STORE": str(tmp_path / "evidence.sqlite"),
        "REPROMATRIX_SITE": str(tmp_path / "site"),
        "PATH": f"{os.environ['PATH']}{os.pathsep}{tmp_path}",
    }
    made = Door(folder=tmp_path, environ={**os.environ, **own})
    yield made
    made.end()


def _case(folder: Path, code: str, name: str = "toy_breaks") -> str:
    path = folder / f"{name}.py"
    path.write_text(case_text("timeout = 600", code, dependencies=["transformers==4.50.0"]))
    return str(path)


# What is to be had ------------------------------------------------------------------------------


def test_bare_nox_lints_checks_and_tests_and_what_people_type_is_listed_first(
    door: Door, matrix: Matrix, places: Paths
) -> None:
    lines = [line for line in door("-l").stdout.splitlines() if line[:2] in {"- ", "* "}]
    names = [line[2:].partition(" ")[0] for line in lines]
    derived = sorted(path.stem for path in places.locks.glob("*+*.txt"))
    releases, stacks = ([each.name for each in some] for some in (matrix.releases, matrix.stacks))
    environments = [f"environment({name})" for name in [*releases, "main", *derived, *stacks]]

    chosen = {line[2:].partition(" ")[0] for line in lines if line.startswith("* ")}

    assert chosen == {"lint", "check", "tests"}
    assert names[: -len(environments)][:4] == ["matrix", "sweep", "run", "report"]
    assert environments == names[-len(environments) :]
    assert [line for line in lines if " -> " not in line] == []


# Outputs and exit codes -------------------------------------------------------------------------


def test_standard_output_is_the_programs_alone(door: Door) -> None:
    done = door("-s", "results", "--", "--format", "csv", "--release", "4.50.0")
    header, *rows = done.stdout.splitlines()

    assert done.returncode == 0
    assert header == COLUMNS
    assert {row.split(",")[2].partition("+")[0] for row in rows} == {"4.50.0"}
    assert "nox > Running session results" in done.stderr


@pytest.mark.parametrize(
    ("code", "options", "variables", "said"),
    [
        (2, ("--precision", "bf15"), {}, "--precision: "),
        (2, ("--no-such-option",), {}, "--no-such-option"),
        (3, ("--case", "zzz*"), {}, "--case: "),
        (
            4,
            ("--case", "{case}", "--release", "main", "--precision", "fp32"),
            {"REPROMATRIX_MAIN": "git+file:///nonexistent@main"},
            "main cannot be built (1 cell): the repository does not answer",
        ),
        (
            70,
            ("--case", "blip2*", "--release", "4.50.0"),
            {"REPROMATRIX_STORE": "{case}/x"},
            "Traceback (most recent call last):",
        ),
    ],
)
def test_a_fault_is_told_on_standard_error_and_by_the_exit_code(
    code: int, options: tuple[str, ...], variables: dict[str, str], said: str, door: Door
) -> None:
    case = _case(door.folder, DOCUMENTED)
    told = {name: text.format(case=case) for name, text in variables.items()}
    done = door("-s", "matrix", "--", *(word.format(case=case) for word in options), **told)

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


@pytest.mark.builds
@pytest.mark.parametrize(
    ("code", "toml", "verdict"),
    [(0, BREAKS, "as-expected"), (1, "", "fails")],
)
def test_something_unexpected_is_1(code: int, toml: str, verdict: str, door: Door) -> None:
    path = door.folder / "toy_breaks.py"
    text = f"{DOCUMENTED}raise ValueError('it ' + 'breaks')\n"
    path.write_text(case_text(toml, text, dependencies=["transformers"]))
    options = ("--case", str(path), "--release", "4.50.0", "--precision", "bf16")

    done = door("-s", "matrix", "--", *options)

    assert (code, "") == (done.returncode, done.stdout)
    assert f"Of 1 selected cell: 1 {verdict}." in done.stderr
    assert door.stored() == [("bf16", "fails")]


def test_a_reader_who_has_seen_enough_is_no_fault(door: Door) -> None:
    buffered = {name: value for name, value in door.environ.items() if name != "PYTHONUNBUFFERED"}
    with started(
        door.command("-s", "results"),
        cwd=ROOT,
        env=buffered,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as nox:
        assert nox.stdout is not None
        assert nox.stderr is not None
        header = nox.stdout.readline().strip()
        nox.stdout.close()
        said = nox.stderr.read()

    assert (header, nox.returncode) == (COLUMNS, 0)
    assert "Traceback" not in said


# Ctrl-C -----------------------------------------------------------------------------------------


def _to_nox_alone(nox: subprocess.Popen[str]) -> None:
    nox.send_signal(signal.SIGINT)


def _to_everyone(nox: subprocess.Popen[str]) -> None:
    """Do what a terminal does at Ctrl-C."""
    os.killpg(nox.pid, signal.SIGINT)


def _begun(
    door: Door, how: Start, /, *options: str, **variables: str
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """Run `nox -s matrix` in a process group of its own, as a terminal does."""
    return started(
        how(door.command("-s", "matrix", "--", *options, "--release", "4.50.0", "--jobs", "2")),
        cwd=ROOT,
        env=door.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _hanging(door: Door) -> tuple[str, Callable[[], bool]]:
    """Return a case whose fp32 passes and whose bf16 hangs, and whether both have happened.

    What it hangs on is seen among the processes: a file would have to leave the sandbox.
    """
    path = _case(door.folder, HANGS)
    return (
        path,
        lambda: (
            ("fp32", "passes") in door.stored()
            and any("sleep 4321" in one for one in door.processes().values())
        ),
    )


@pytest.mark.builds
@pytest.mark.parametrize(
    ("how", "interrupt"),
    [
        pytest.param(list, _to_nox_alone, marks=pytest.mark.whole),
        (list, _to_everyone),
        pytest.param(list, subprocess.Popen.terminate, marks=pytest.mark.whole),
        (ignoring_sigint, _to_nox_alone),
    ],
)
def test_an_interrupted_run_keeps_what_was_measured_and_renders_it(
    how: Start, interrupt: Callable[[subprocess.Popen[str]], None], door: Door
) -> None:
    path, hangs = _hanging(door)
    with _begun(door, how, "--case", path) as nox:
        wait_until(hangs)
        interrupt(nox)
        said, _ = nox.communicate(timeout=PATIENCE)
        wait_until(lambda: not door.processes())

    assert (nox.returncode, door.stored()) == (130, [("fp32", "passes")]), said
    assert "Interrupted. Results so far are kept" in said
    assert [path.name for path in door.folder.glob("*site/index.html")] == ["index.html"]


@pytest.mark.builds
@pytest.mark.parametrize("doing", ["uv pip install", "serve"])
def test_a_run_can_be_interrupted_before_its_first_cell(doing: str, door: Door) -> None:
    code = f"{DOCUMENTED}import torch\nfrom transformers import Trainer\n"
    there = {} if doing == "serve" else {"REPROMATRIX_ENVIRONMENTS": str(door.folder / "built")}
    with _begun(door, list, "--case", _case(door.folder, code), **there) as nox:
        wait_until(lambda: any(doing in one for one in door.processes().values()))
        _to_everyone(nox)
        said, _ = nox.communicate(timeout=PATIENCE)
        wait_until(lambda: not door.processes())

    assert (nox.returncode, door.stored()) == (130, []), said
    assert list(door.folder.glob("built/*/complete.json")) == []
    assert [path.name for path in door.folder.glob("*site/index.html")] == ["index.html"]


@pytest.mark.builds
@pytest.mark.parametrize("walls", ["--no-sandbox", pytest.param("--sandbox", marks=bubblewrap)])
def test_a_killed_door_leaves_no_process_behind(walls: str, door: Door) -> None:
    path, hangs = _hanging(door)
    with _begun(door, list, "--case", path, walls) as nox:
        wait_until(hangs)
        nox.kill()
        wait_until(lambda: not door.processes())

    assert door.stored() == [("fp32", "passes")]
