"""SIGINT and SIGTERM as an exception, raised where nothing is left taken by it."""

from __future__ import annotations

import math
import signal
import time
from types import FrameType

from repromatrix.runner.errors import Interrupted

_IMPORTING = "<frozen importlib"
_SOON = 0.01


class Interruption:
    """A signal becomes an exception once in so many seconds."""

    def __init__(self, quiet: float = math.inf) -> None:
        """Nothing came yet."""
        self.quiet = quiet
        self.last = -math.inf

    def __call__(self, _signal: int, frame: FrameType | None) -> None:
        """Raise Interrupted, a moment later where Python is about to import.

        Raised between its taking of the import lock and its giving it back, the lock would stay
        taken, and a thread that imports something would wait for ever.
        """
        if frame is not None and frame.f_code.co_filename.startswith(_IMPORTING):
            signal.signal(signal.SIGALRM, self)
            signal.setitimer(signal.ITIMER_REAL, _SOON)
            return
        again, self.last = time.monotonic() - self.last < self.quiet, time.monotonic()
        if not again:
            raise Interrupted
