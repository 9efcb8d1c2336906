"""Adding a release to the matrix, and an interruption while locks are written."""

from __future__ import annotations

import datetime as dt
import signal
import time
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from rich.console import Console

from repromatrix.runner.cli import lock
from repromatrix.runner.cli.lock import entered
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.paths import Paths
from repromatrix.runner.signals import Interruption
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """releases = [
  { name = "4.49.0",  date = 2025-02-17 },
  { name = "5.10.4",  date = 2026-06-15 },
]
stacks = [
  { name = "ms-swift3.3.0", date = 2025-04-11 },
]
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.11.0", [0, 1, "new"]),
        ("4.50.0", [0, "new", 1]),
        ("4.48.0", ["new", 0, 1]),
    ],
)
def test_a_release_is_entered_by_its_version_and_aligned(
    version: str, expected: list[int | str]
) -> None:
    first, *old = TEXT.splitlines(keepends=True)
    new = f'  {{ name = "{version}",  date = 2026-06-10 }},\n'
    wanted = [new if part == "new" else old[int(part)] for part in expected]

    assert "".join([first, *wanted, *old[2:]]) == entered(
        TEXT, Version(version), dt.date(2026, 6, 10)
    )


def test_an_interruption_ends_what_resolves_locks(tmp_path: Path) -> None:
    def resolve(_: str) -> str:
        return "".join(finish(["sleep", "60"]).out for _ in range(3))

    before, begin = signal.signal(signal.SIGALRM, Interruption()), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Interrupted):
            lock._write(Paths(root=tmp_path), ["1", "2", "3", "4"], resolve, Console(quiet=True))
    finally:
        signal.signal(signal.SIGALRM, before)

    assert time.monotonic() - begin < 30
