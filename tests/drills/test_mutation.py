"""The drill of mutants, small: a planted mutant that a test notices, and one that none does."""

from __future__ import annotations

import json
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from needs import bubblewrap

from drills.mutation import (
    LOOSE,
    Fate,
    Mutant,
    Part,
    Trials,
    drawn,
    drill,
    fates,
    mutant,
    remembered,
    room,
    sources,
    sum_up,
    tell,
)
from drills.tally import Tally
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
def larger(one, other):
    return max(one, other)

def smaller(one, other):
    return min(one, other)
"""
TEST = """
import pytest
from runner.judging.numbers import larger, smaller

def test_numbers():
    assert larger(1, 2) == 2
    assert smaller(1, 1) == 1

@pytest.mark.builds
def test_built():
    assert larger(7, 7) == 7

@pytest.mark.builds
def test_that_cannot_be_run_here():
    assert larger(7, 7) == 8

@pytest.mark.whole
def test_at_length():
    assert smaller(1, -1) < 2
"""
CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true")
    parser.addoption("--whole", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "whole: repeats")
    config.addinivalue_line("markers", "builds: takes long")

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    left = set() if config.getoption("--whole") else {"whole"}
    left |= {"builds"} if config.getoption("--quick") else set()
    items[:] = [item for item in items if not left & {mark.name for mark in item.iter_markers()}]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout of one module, of which one function is hardly tested."""
    files = {
        "runner/judging/numbers.py": CODE,
        "tests/judging/test_numbers.py": TEST,
        "tests/conftest.py": CONFTEST,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
        "reports/__init__.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path / "checkout"


def planted(old: str, new: str) -> Mutant:
    found = mutant("runner/judging/numbers.py", "planted", CODE, CODE.replace(old, new))
    assert found
    return found


NOTICED = planted("max(one, other)", "min(one, other)")
SURVIVES = planted("min(one, other)", "max(one, other)")
SLOWLY = planted("max(one, other)", "max(one, other) + (one == 7)")
AT_LENGTH = planted("min(one, other)", "min(one, other) + 9 * (other == -1)")
BROKEN = planted("return max(", "return nothing(")


@bubblewrap
def test_a_mutant_that_a_test_notices_is_told_from_one_that_survives(root: Path) -> None:
    trials, found = Trials(root=root), dict[str, Fate]()
    with trials.copies(1):
        red = trials.red_rooms(["judging"])
        planned = [NOTICED, SURVIVES, BROKEN, SLOWLY, AT_LENGTH]
        fates(trials, planned, time.monotonic() + 60, found)

    assert red == []
    assert found == {
        NOTICED.name: Fate.NOTICED,
        SURVIVES.name: Fate.SURVIVED,
        BROKEN.name: Fate.NOTICED,
        SLOWLY.name: Fate.NOTICED,
        AT_LENGTH.name: Fate.BY_WHOLE,
    }
    assert trials.red["judging", Part.SLOW] == [
        "tests/judging/test_numbers.py::test_that_cannot_be_run_here"
    ]
    assert (root / "runner/judging/numbers.py").read_text() == CODE


def test_what_was_noticed_and_survives_now_fails_the_drill_each_time(tmp_path: Path) -> None:
    record, told = tmp_path / "record.json", []
    for fate in (Fate.SURVIVED, Fate.NOTICED, Fate.SURVIVED, Fate.SURVIVED):
        tally = Tally("mutation", tmp_path / "none")
        tell(tally, [NOTICED, BROKEN], {NOTICED.name: fate, BROKEN.name: Fate.NOTICED}, record)
        told += [(one.tried, one.times, one.found, one.note) for one in tally.counts]

    assert told == [
        ("mutants of `judging`", 2, 0, "1 noticed, 1 survived"),
        ("mutants of `judging`", 2, 0, "2 noticed, 0 survived"),
        ("mutants of `judging`", 2, 1, "1 noticed, 1 survived"),
        ("mutants of `judging`", 2, 1, "1 noticed, 1 survived"),
    ]
    assert {*json.loads(record.read_text())} == {NOTICED.name, BROKEN.name}


def test_what_the_default_misses_and_what_is_not_reached_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = Tally("mutation", tmp_path / "none")
    found = {
        NOTICED.name: Fate.NOTICED,
        AT_LENGTH.name: Fate.BY_WHOLE,
        SURVIVES.name: Fate.SURVIVED,
    }
    sum_up(tally, [NOTICED, SURVIVES, AT_LENGTH, BROKEN], found)
    *listed, _ = capsys.readouterr().out.splitlines()

    assert [line.partition(": runner")[0] for line in listed] == [
        *("noticed by `--whole` alone", "noticed by neither", "not reached"),
    ]
    (count,) = tally.counts
    told = "1 noticed by default, 1 noticed by `--whole` alone, 1 noticed by neither, 1 not reached"
    assert (count.times, count.found, count.note) == (3, 1, told)


@bubblewrap
def test_what_was_found_before_an_interruption_is_kept(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, tried = tmp_path / "record.json", iter([Fate.NOTICED])
    record.write_text("{}")
    monkeypatch.setenv("REPRO_COUNT", "2")
    monkeypatch.setenv("REPRO_RECORD", str(record))
    monkeypatch.setattr(Trials, "fate", lambda *_: next(tried, None) or interrupted())
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})

    with pytest.raises(KeyboardInterrupt):
        drill(Tally("mutation", tmp_path / "none"), root)

    assert [*json.loads(record.read_text()).values()] == [Fate.NOTICED]


def interrupted() -> Fate:
    raise KeyboardInterrupt


@bubblewrap
def test_the_drill_draws_and_tries_as_many_as_it_is_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SEED": "1", "COUNT": "1", "RECORD": str(tmp_path / "record")}.items():
        monkeypatch.setenv(f"REPRO_{name}", value)
    tally = Tally("mutation", tmp_path / "none")
    drill(tally, root)
    expected = {one.name for one in drawn(root, 1, 1)}

    assert [(one.times, one.found) for one in tally.counts] == [(1, 0), (1, 0), (1, 0)]
    assert {*json.loads((tmp_path / "record").read_text())} == expected


@bubblewrap
def test_a_room_whose_tests_fail_anyhow_fails_the_drill(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_COUNT", "1")
    monkeypatch.setenv("REPRO_RECORD", str(tmp_path / "record.json"))
    (root / "tests/judging/test_numbers.py").write_text("def test_numbers(): assert False\n")
    tally = Tally("mutation", tmp_path / "none")
    drill(tally, root)

    assert [(one.times, one.found, one.note) for one in tally.counts[:1]] == [(1, 1, "judging")]


def test_without_a_sandbox_no_mutant_is_run(root: Path, tmp_path: Path) -> None:
    tally = Tally("mutation", tmp_path / "none")
    drill(tally, root, lambda: "no bubblewrap")

    assert not tally.passed


def test_a_seed_draws_the_same_mutants_again_and_another_one_others() -> None:
    first, again, other = (drawn(ROOT, seed, 3) for seed in (1, 1, 2))

    assert first == again
    assert len({one.name for one in [*first, *other]}) == 6


def test_a_mutant_has_the_same_name_where_its_lines_have_moved() -> None:
    moved = mutant(
        "runner/judging/numbers.py",
        "planted",
        f"import os\n{CODE}",
        f"import os\n{CODE.replace('max', 'min')}",
    )

    assert moved
    assert moved.name == NOTICED.name
    assert moved.text != NOTICED.text


def test_lines_that_stand_twice_are_two_mutants() -> None:
    text = "def one():\n    return 1\n\ndef two():\n    return 1\n"
    first, second = (
        mutant("runner/text.py", "planted", text, text.replace("1", "2", 1)),
        mutant("runner/text.py", "planted", text, text[::-1].replace("1", "2", 1)[::-1]),
    )

    assert first
    assert second
    assert (first.before, first.after) == (second.before, second.after)
    assert (first.same, second.same) == (0, 1)
    assert first.room == "runner"


@pytest.mark.parametrize("changed", [CODE, f"{CODE}\n# A comment.\n", f"{CODE}\nreturn\n"])
def test_what_means_the_same_or_nothing_is_no_mutant(changed: str) -> None:
    assert mutant("runner/text.py", "planted", CODE, changed) is None


def test_every_file_has_tests_of_its_room() -> None:
    rooms = {room(path.relative_to(ROOT).as_posix()) for path in sources(ROOT)} - {LOOSE}

    assert [one for one in sorted(rooms) if not [*(ROOT / "tests" / one).glob("test_*.py")]] == []


def test_what_was_noticed_before_is_tried_again_wherever_its_lines_stand_now(root: Path) -> None:
    lines = ["return max(one, other)", "return max(one, other) + 1"]
    names = [
        json.dumps([path, "numbers", *change, 0])
        for path, change in (
            ("runner/judging/numbers.py", lines),
            ("runner/gone.py", ["return min(one, other)", "return None"]),
            ("runner/gone.py", ["return 7", "return 8"]),
        )
    ]
    record = dict.fromkeys(names, "noticed") | {names[0].replace("+ 1", "+ 2"): "survived"}
    found = remembered(root, record)

    assert [one.name for one in found] == [names[1], names[0]]
    assert {one.path for one in found} == {"runner/judging/numbers.py"}
    assert [one.text for one in found] == [
        CODE.replace("return min(one, other)", "return None"),
        CODE.replace("max(one, other)", "max(one, other) + 1"),
    ]
