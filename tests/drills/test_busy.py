"""The tests on a busy machine: the load is there and ends, and too long a time is counted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fakes import processes_of
from programs import wait_until

from drills.busy import judged
from drills.load import loaded
from drills.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path


def test_a_load_takes_every_core_and_ends_with_its_block(tmp_path: Path) -> None:
    with loaded(0, ["processor"], str(tmp_path)):
        wait_until(lambda: len(processes_of(tmp_path)) == os.cpu_count())

    assert processes_of(tmp_path) == []


def test_over_twice_as_long_is_too_long(tmp_path: Path) -> None:
    tally = Tally("busy", tmp_path / "none")
    judged(tally, 10.0, 20.0)
    assert tally.passed

    judged(tally, 10.0, 20.1)
    assert not tally.passed
