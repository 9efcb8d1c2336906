"""Ctrl-C at a few moments of two commands; the check does it at many, of every command."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import Place, corpus, toys
from programs import started

from checks import interrupt
from checks.interrupt import left, tried, wrong_end

if TYPE_CHECKING:
    from pathlib import Path


def test_a_command_that_reads_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    advise = next(command for command in corpus(tmp_path) if command.title == "advise")

    assert tried(advise, [0.6]) == [[]]
    assert tried(dataclasses.replace(advise, words=("advise", "--nothing")), [0.5]) == []


@pytest.mark.whole
@pytest.mark.builds
def test_a_command_that_builds_ends_at_once_and_the_next_goes_on(tmp_path: Path) -> None:
    matrix = next(toys(tmp_path, tmp_path / "temporary"))

    assert tried(matrix, [0.3, 0.6, 0.8]) == [[], [], []]


@pytest.mark.parametrize(
    ("code", "said", "is_early", "wrong"),
    [
        (130, "Interrupted.\n", False, []),
        (0, "done\n", False, ["exit code 0", "done\n"]),
        (130, "Traceback (most\n", False, ["words of Python's own", "Traceback (most\n"]),
        (-2, "", False, ["exit code -2", ""]),
        (-2, "Traceback (most\n", True, []),
        (0, "done\n", True, ["exit code 0", "done\n"]),
    ],
)
def test_an_end_that_is_no_interruption_is_told(
    code: int, said: str, *, is_early: bool, wrong: list[str]
) -> None:
    assert wrong_end(code, said, is_early=is_early) == wrong


def test_what_is_left_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "SOON", 0.1)
    written = tmp_path / "written"
    place = Place(
        root=tmp_path,
        folder=tmp_path,
        temporary=tmp_path / "temporary",
        environ={},
        written=(written,),
    )
    for folder in (place.temporary, written):
        folder.mkdir()
    (place.temporary / "folder").mkdir()
    (written / "table.draft").touch()
    environ = {"TMPDIR": str(place.temporary)}
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    with started(command, env=environ, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        found = left(place)
        program.kill()

    assert [one.split(":")[0] for one in found] == [
        f"process {program.pid}",
        f"left {place.temporary / 'folder'}",
        f"left {written / 'table.draft'}",
    ]
