"""A few damaged stores, held ones, future ones, and file systems that lack something."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from checks import store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.whole) for number in (1, 2, 3))]
)
def test_a_damaged_store_is_read_or_kept_aside_as_it_was(tmp_path: Path, number: int) -> None:
    assert store.damaged(tmp_path, number) == []


def test_a_store_that_is_held_or_of_the_future_loses_nothing(tmp_path: Path) -> None:
    assert [*store.held(tmp_path), *store.future(tmp_path)] == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_a_file_system_without_shared_memory_or_locks_loses_nothing(tmp_path: Path) -> None:
    tries, wrong = store.unfit(tmp_path, store.compiled(tmp_path))

    assert (tries, wrong) == (4, [])


def test_an_error_without_an_address_is_seen() -> None:
    found = [store.Used(code=1, said="Traceback"), store.Used(code=2, said="told: nothing")]

    assert [one.addressed for one in found] == [False, False]
