"""SIGINT and SIGTERM as an exception: once, and never while Python imports."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from programs import PATIENCE, ignoring_sigint, started

from repromatrix.runner.errors import Interrupted
from repromatrix.runner.paths import ROOT
from repromatrix.runner.signals import Interruption

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType


# Programs that are interrupted


PUTS_OFF = """
import signal, time
from repromatrix.runner import cli
from repromatrix.runner.signals import Interruption

cli._run = Interruption()._call_again
cli.main()
signal.signal(signal.SIGALRM, signal.SIG_DFL)  # as Python does in its last moment
time.sleep(0.1)
"""
BESIDE_RAY = """
import atexit, ctypes, sys, types
from repromatrix.runner import cli
from repromatrix.runner.errors import Interrupted

def interrupted(prog_name: str = "") -> None:
    raise Interrupted

libc = ctypes.CDLL(None)
# As Ray's own code does where its threads are still at work.
libc.__cxa_atexit(libc.abort, None, None)
atexit.register(print, "Python's last act")
sys.modules["ray"] = types.ModuleType("ray")
cli.app, cli.register = interrupted, lambda asked: None
print("printed")
"""
EARLY = f"{BESIDE_RAY}cli.main()\n"
LATE = f"{BESIDE_RAY}cli._run = interrupted\ncli.main()\n"
REFUSES = r"""
import os, signal
from pydantic_core import SchemaValidator, core_schema
from repromatrix.runner import cli

class InterruptedAsItIsRead(str):
    def __str__(self) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return super().__str__()

def app(prog_name: str) -> None:
    pattern = InterruptedAsItIsRead(r"^\d$")
    SchemaValidator(core_schema.str_schema(pattern=pattern)).validate_python("3")

cli.app, cli.register = app, lambda asked: None
cli.main()
"""
WITH_AN_ALARM = """
import signal
from repromatrix.runner import cli

signal.setitimer(signal.ITIMER_REAL, 600)
cli.app, cli.register = lambda prog_name: None, lambda asked: None
try:
    cli.main()
except SystemExit:
    pass
seconds_left, _ = signal.getitimer(signal.ITIMER_REAL)
print(seconds_left > 0)
"""
SLOW_IMPORT = """
import os, signal, sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "repromatrix.runner.cli":
            os.kill(os.getpid(), signal.SIGINT)
            import time
            time.sleep(10)

sys.meta_path.insert(0, Slow())
from repromatrix.__main__ import main
main()
"""
ENDING = """
import atexit, os, signal
from repromatrix.runner import cli

def app(prog_name: str) -> None:
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
    raise SystemExit(0)

cli.app, cli.register = app, lambda asked: None
from repromatrix.__main__ import main
main()
"""
LAST = "printed\nPython's last act\n"


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        pytest.param(PUTS_OFF, (0, None, ""), id="put off until the end, it is forgotten"),
        pytest.param(EARLY, (130, LAST, "Interrupted.\n"), id="beside Ray, it ends before it"),
        pytest.param(LATE, (130, LAST, ""), id="beside Ray, at the very end"),
        pytest.param(REFUSES, (130, "", "Interrupted.\n"), id="what fails for it is no error"),
        pytest.param(WITH_AN_ALARM, (0, "True\n", ""), id="an alarm of the caller goes on"),
        pytest.param(SLOW_IMPORT, (130, "", "Interrupted.\n"), id="while all is imported"),
        pytest.param(ENDING, (130, "", "Interrupted.\n"), id="while Python ends"),
    ],
)
def test_a_program_ends_with_its_code_and_words_whenever_it_is_interrupted(
    code: str, ended: tuple[int, str | None, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, "results"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    out = None if ended[1] is None else done.stdout
    assert (done.returncode, out, done.stderr) == ended


SLEEPS = """
import time
from repromatrix.runner import cli

def app(prog_name: str) -> None:
    print("begun", flush=True)
    time.sleep(600)

cli.app, cli.register = app, lambda asked: None
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_answers_signals_although_sigint_was_ignored_where_it_was_started(
    number: signal.Signals,
) -> None:
    with started(
        ignoring_sigint([sys.executable, "-c", SLEEPS, "results"]),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as program:
        assert program.stdout is not None
        begun = program.stdout.readline()
        program.send_signal(number)
        said, _ = program.communicate(timeout=PATIENCE)

    assert (program.returncode, begun + said) == (130, "begun\nInterrupted.\n")


# What a program makes of a signal


@pytest.fixture
def answered() -> Iterator[None]:
    """What answers signals in a test is its own alone."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_interrupts_once() -> None:
    interrupt = Interruption()
    with pytest.raises(Interrupted):
        interrupt(signal.SIGINT, sys._getframe())
    interrupt(signal.SIGINT, None)


@pytest.mark.usefixtures("answered")
def test_what_python_imports_is_interrupted_behind_it() -> None:
    # Between taking the import lock and giving it back, every other thread would wait for ever.
    code = compile("import sys; frame = sys._getframe()", "<frozen importlib._bootstrap>", "exec")
    names: dict[str, FrameType] = {}
    exec(code, names)  # noqa: S102
    Interruption()(signal.SIGINT, names["frame"])
    with pytest.raises(Interrupted):
        time.sleep(10)


TURNS = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
except BaseException:
    raise AttributeError("half imported")
"""


@pytest.mark.usefixtures("answered")
def test_a_module_that_is_imported_hears_of_no_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turns_it_into_its_own.py").write_text(TURNS)
    monkeypatch.syspath_prepend(tmp_path)
    signal.signal(signal.SIGINT, Interruption())
    with pytest.raises(Interrupted):
        import_and_wait("turns_it_into_its_own")


def import_and_wait(name: str) -> None:
    importlib.import_module(name)
    time.sleep(10)


class InterruptedAtItsEnd:
    """Interrupts the program while it is freed, where Python lets no exception through."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)


def free_and_wait() -> None:
    InterruptedAtItsEnd()
    time.sleep(10)


@pytest.mark.usefixtures("answered")
def test_an_interruption_that_python_ignores_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt = Interruption()
    monkeypatch.setattr(sys, "unraisablehook", interrupt.ignored)
    signal.signal(signal.SIGINT, interrupt)
    with pytest.raises(Interrupted):
        free_and_wait()
