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


SLEEPS = """
import time
from repromatrix.runner import cli

def app(prog_name: str) -> None:
    print("begun", flush=True)
    time.sleep(600)

cli.app, cli.register = app, lambda asked: None
cli.main()
"""


PUTS_OFF = """
import signal, time
from repromatrix.runner import cli
from repromatrix.runner.signals import Interruption

cli._run = Interruption()._call_again
cli.main()
signal.signal(signal.SIGALRM, signal.SIG_DFL)  # as Python does in its last moment
time.sleep(0.1)
"""


def test_an_interruption_that_was_put_off_until_the_end_is_forgotten() -> None:
    done = subprocess.run([sys.executable, "-c", PUTS_OFF], cwd=ROOT, check=False)

    assert done.returncode == 0


BESIDE_RAY = """
import atexit, ctypes, sys, types
from repromatrix.runner import cli
from repromatrix.runner.errors import Interrupted

def interrupted() -> None:
    raise Interrupted

libc = ctypes.CDLL(None)
# As Ray's own code does where its threads are still at work.
libc.__cxa_atexit(libc.abort, None, None)
atexit.register(print, "Python's last act")
sys.modules["ray"] = types.ModuleType("ray")
cli.app, cli.register = lambda prog_name: interrupted(), lambda asked: None
if "late" in sys.argv:
    cli._run = interrupted
print("printed")
cli.main()
"""


@pytest.mark.parametrize(("when", "told"), [("early", "Interrupted.\n"), ("late", "")])
def test_an_interruption_beside_ray_ends_before_what_ray_does_at_an_ordinary_end(
    when: str, told: str
) -> None:
    done = finished(BESIDE_RAY, when)

    assert (done.returncode, done.stdout) == (130, "printed\nPython's last act\n")
    assert done.stderr == told


@pytest.fixture
def answered() -> Iterator[None]:
    """What answers signals in a test is its own alone."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def a_frame(file: str) -> FrameType:
    """Return where a program stands that was compiled from a file."""
    found: dict[str, FrameType] = {}
    exec(compile("import sys; found['frame'] = sys._getframe()", file, "exec"), {"found": found})  # noqa: S102
    return found["frame"]


def test_a_signal_interrupts_once() -> None:
    interrupt = Interruption()
    with pytest.raises(Interrupted):
        interrupt(signal.SIGINT, sys._getframe())
    interrupt(signal.SIGINT, None)


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


@pytest.mark.usefixtures("answered")
def test_what_python_imports_is_interrupted_behind_it() -> None:
    # Between taking the import lock and giving it back, every other thread would wait for ever.
    Interruption()(signal.SIGINT, a_frame("<frozen importlib._bootstrap>"))
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


def test_an_alarm_of_whoever_calls_the_program_goes_on() -> None:
    assert finished(WITH_AN_ALARM).stdout == "True\n"


def test_what_fails_since_python_ignored_an_interruption_is_not_told_as_an_error() -> None:
    assert ended(REFUSES, "results") == (130, "Interrupted.\n")


def finished(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python that runs this code to its end."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ended(code: str, *arguments: str) -> tuple[int, str]:
    """Return how a Python that runs this code ends, and what it says of errors."""
    done = finished(code, *arguments)
    return done.returncode, done.stderr


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


def test_an_interruption_while_the_program_is_imported_ends_it_at_once() -> None:
    assert ended(SLOW_IMPORT) == (130, "Interrupted.\n")


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


def test_an_interruption_while_python_ends_has_its_code_and_no_words_of_python() -> None:
    assert ended(ENDING, "results") == (130, "Interrupted.\n")
