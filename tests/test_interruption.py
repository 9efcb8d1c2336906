"""SIGINT and SIGTERM as an exception: once, and never while Python imports."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from runner.errors import Interrupted
from runner.interruption import Interruption

if TYPE_CHECKING:
    from types import FrameType


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


def test_what_python_imports_is_interrupted_behind_it() -> None:
    # Between taking the import lock and giving it back, every other thread would wait for ever.
    before = signal.getsignal(signal.SIGALRM)
    try:
        Interruption()(signal.SIGINT, a_frame("<frozen importlib._bootstrap>"))
        with pytest.raises(Interrupted):
            time.sleep(10)
    finally:
        signal.signal(signal.SIGALRM, before)
