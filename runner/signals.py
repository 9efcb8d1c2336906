"""SIGINT and SIGTERM as an exception, raised where nothing is left taken by it."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from repromatrix.runner.errors import Interrupted

_IMPORTING = "<frozen importlib"
_SOON = 0.01
_TWICE = 3.0
"""Seconds: Ctrl-C through nox arrives twice."""

_held = 0
"""How many blocks of the main thread want none of its steps left out."""


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let an interruption come behind a block that takes a moment and must not be done by half."""
    global _held  # noqa: PLW0603 - there is one main thread, and it alone is interrupted
    own = threading.current_thread() is threading.main_thread()
    _held += own
    try:
        yield
    finally:
        _held -= own


def forget() -> None:
    """Drop an interruption that was put off: where a program ends it would be one of the system.

    An alarm of somebody else stays: pytest ends by one a test that takes too long.
    """
    alarm = signal.getsignal(signal.SIGALRM)
    if isinstance(alarm, Interruption) and alarm.is_put_off:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def answering(*numbers: signal.Signals, quiet: float = _TWICE) -> Iterator[None]:
    """Let these signals interrupt the program, whatever whoever started it ignored.

    Within so many quiet seconds they do so once. Raises Interrupted also for what fails while an
    interruption is put off, as it may have failed by it: where pydantic is interrupted while it
    reads a pattern (CPython looks for signals in `PyObject_Str`), it ignores that, and its
    validator then refuses whatever it is given.
    """
    interruption = Interruption(quiet)
    for number in numbers:
        signal.signal(number, interruption)
    sys.unraisablehook = interruption.ignored
    try:
        yield
    except Exception:
        if interruption.is_put_off:
            raise Interrupted from None
        raise
    finally:
        forget()


class Interruption:
    """A signal becomes an exception once in so many seconds."""

    def __init__(self, quiet: float = math.inf) -> None:
        """Nothing came yet."""
        self.quiet = quiet
        self.last = -math.inf
        self.is_put_off = False

    def __call__(self, _signal: int, frame: FrameType | None) -> None:
        """Raise Interrupted, a moment later where it is held or Python imports something.

        Raised between its taking of the import lock and its giving it back, the lock would stay
        taken, and a thread that imports something would wait for ever. Raised while a module runs,
        pandas for one makes an AttributeError of it, and our program ends as by a fault of its own.
        """
        if _held or _imports(frame):
            self._call_again()
            return
        self.is_put_off = False
        again, self.last = time.monotonic() - self.last < self.quiet, time.monotonic()
        if not again:
            raise Interrupted

    def ignored(self, what: sys.UnraisableHookArgs) -> None:
        """Raise Interrupted again where Python ignored it, as in `__del__`; for sys.unraisablehook.

        The program would go on as if nobody had interrupted it.
        """
        if what.exc_type is Interrupted:
            self.last = -math.inf
            self._call_again()
        else:
            sys.__unraisablehook__(what)

    def _call_again(self) -> None:
        self.is_put_off = True
        signal.signal(signal.SIGALRM, self)
        signal.setitimer(signal.ITIMER_REAL, _SOON)


def _imports(frame: FrameType | None) -> bool:
    """Say whether a frame, or one of its callers, is of Python's import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False
