"""The quick tests, once alone and once beside a program on each core that never rests: they must
not take over twice as long.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from drills.load import loaded
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from drills.tally import Tally

MOST = 2.0
"""How many times as long they may take."""
_PYTEST = ("-m", "pytest", "-q", "--quick", "-n", "auto", "--dist", "loadfile")
_LONG = 7_200.0
"""Seconds after which they are taken for tests without an end."""


def drill(tally: Tally) -> None:
    """Run them twice, and compare."""
    alone = _timed(tally, "runs of the quick tests, alone")
    with loaded(0, ["processor"]):
        beside = _timed(tally, "runs of them, every core loaded")
    judged(tally, alone, beside)


def judged(tally: Tally, alone: float, beside: float) -> None:
    """Count whether the load made them take too long."""
    ratio = beside / alone
    note = f"{ratio:.2f} times as long, on {os.cpu_count()} cores"
    tally.count("the two compared", 1, f"over {MOST:g} times as long", ratio > MOST, note)


def _timed(tally: Tally, tried: str) -> float:
    begin = time.monotonic()
    ended = subprocess.run([sys.executable, *_PYTEST], cwd=ROOT, timeout=_LONG, check=False)
    seconds = time.monotonic() - begin
    tally.count(tried, 1, "failed", ended.returncode != 0, f"{seconds / 60:.1f} min")
    return seconds
