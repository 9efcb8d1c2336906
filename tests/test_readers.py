"""What fuzzing found, kept; every reader and the query given a few more changed inputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import queries
from readers import targets

from checks.fuzz import fuzzed, trouble
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.worker.cell_process import read_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TARGETS = {one.name: one for one in targets()}
NAMES = sorted(TARGETS)
DEEP = 3000
CASE = TARGETS["case"].seeds[0]
MATRIX = TARGETS["matrix.toml"].seeds[0]
UV = TARGETS["uv.lock"].seeds[0]
CELLS = TARGETS["published gemma3_trainer_eval.csv"].seeds[0]
KEY = "published gemma3_trainer_eval."

LONG = b"9" * 5000
FOUND = [
    ("case", CASE.replace(b"area = ", b"area = " + b"{a=" * DEEP)),
    ("case", CASE.replace(b'"kv-cache"', LONG)),
    ("case", CASE + b"-" * 9000 + b"1\n"),
    ("case", CASE.replace(b">=4.50,<4.51", b">=" + LONG)),
    ("script", b"-" * 9000 + b"1\n"),
    ("matrix.toml", MATRIX.replace(b'"4.49.0"', b'"companions"')),
    ("matrix.toml", MATRIX.replace(b'"4.50.0"', b'""')),
    ("matrix.toml", MATRIX.replace(b'"3.11"', b'"x"')),
    ("matrix.toml", MATRIX.replace(b"2025-03-21", b"9999-12-31")),
    ("matrix.toml", MATRIX.replace(b"60", LONG)),
    ("uv.lock", UV.replace(b"revision = 5", b"revision = " + LONG)),
    ("options", b"*\n>=" + LONG),
    ("freeze.txt", b"-r " + b"x" * 5000 + b"\n"),
    ("lock", b"peft==" + LONG + b" --hash=sha256:00\n"),
    *(("changes.json", content) for content in (b"", b'""', b"\xff", b"[" * DEEP)),
    *(("published publications.toml", content) for content in (b"", b'"', b"\xff")),
    *(("published environments.csv", content) for content in (b"", b"one\ntwo\n", b"\xff")),
    (f"{KEY}csv", CELLS.replace(b"fp32", b"fp64")),
    (f"{KEY}csv", CELLS.replace(b"passes", b"passed")),
    (f"{KEY}csv", re.sub(rb",\d{4}-\d\d-\d\d[\w-]*(?=\n)", b",", CELLS)),
    (f"{KEY}csv", b"one\ntwo\n"),
    *((f"{KEY}json", content) for content in (b"", b"[]", b"[" * DEEP)),
]


@pytest.mark.parametrize(("name", "content"), FOUND)
def test_what_fuzzing_found_is_told_with_its_address(name: str, content: bytes) -> None:
    target = TARGETS[name]

    with pytest.raises(RunnerError) as error:
        target.read(content)

    assert error.value.code is ExitCode.BAD_INPUT
    assert trouble(target, content) == ""


def test_a_version_of_thousands_of_digits_pins_nothing() -> None:
    for name in ("uv.lock", "poetry.lock", "pylock.toml", "freeze.txt"):
        target = TARGETS[name]
        for content in (b"tokenizers", b"4.50.0", b"0.21.1"):
            assert trouble(target, target.seeds[0].replace(content, b"9" * 5000)) == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_takes_whatever_it_is_given(name: str) -> None:
    tried, found = fuzzed(TARGETS[name], 30, 0)

    assert (tried > 0, found) == (True, {})


REPORT = json.loads(TARGETS["child's report"].seeds[1])
WRONG: dict[str, object] = {
    "exit": "0",
    "error_class": None,
    "message": 1,
    "seconds": -1.0,
    "exercised": "perhaps",
    "computed": {"float32": -1},
    "measured": [],
    "compiles": 0,
    "imported": {"torch": None},
    "claimed": "torch",
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_report_with_something_else_in_it_is_none(name: str) -> None:
    assert read_report(json.dumps(REPORT).encode()) == REPORT
    assert read_report(json.dumps({**REPORT, name: WRONG[name]}).encode()) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"[" * 100_000, b'{"message": "\\ud800"}', b'{"seconds": 1e999}']
)
def test_what_is_no_report_is_none(content: bytes) -> None:
    assert read_report(content) is None


@pytest.mark.browser
def test_the_page_takes_every_query(browser: Browser, site: Path) -> None:
    drawn = queries.texts(0, 300)

    assert (len(drawn) > 300, queries.asked_of(browser, site, drawn)) == (True, [])
