"""Two checkouts asked the same: what differs is printed, what was decided is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import is_alive
from programs import PATIENCE, started, wait_until

from checks import run, same_answers
from checks.questions import Printed, Question, as_csv, as_json, questions
from checks.same_answers import Accepted

ROOT = Path(__file__).parents[2]
ANSWER: dict[str, Any] = {
    "counts": {"same": 2},
    "cells": [
        {"case": "one", "precision": "fp32", "outcome": "passes"},
        {"case": "one", "precision": "bf16", "outcome": "fails"},
    ],
}
CASE = """\
# /// script
# dependencies = []
#
# [tool.repromatrix]
# area = "loading"
# models = ["gemma3"]
#
# [tool.repromatrix.workarounds]
# cast = "Cast it."
# ///
"""
# A program with every command: its answers are its arguments, so that they tell what was asked.
PROGRAM = """\
import json, os, pathlib, sys
command, *words = sys.argv[1:]
if "--help" in words:
    print("  --evidence-only  <bool>  Answer from evidence alone.")
elif command == "report":
    site = pathlib.Path(os.environ["REPROMATRIX_SITE"])
    site.mkdir(exist_ok=True)
    (site / "cells.json").write_text('{{"columns": ["case"], "rows": [["one"]]}}')
elif command == "check":
    print("{check}")
elif "json" in words:
    print(json.dumps({{"words": [word for word in words if word != "--evidence-only"], **{extra}}}))
else:
    print("case,workaround,release,precision,outcome")
    print("one,,4.50.0,bf16,passes")
    print("one,,4.51.0,bf16,fails")
    print("one[variant],,4.51.0,bf16,fails")
"""


def _lines(before: object, after: object) -> list[str]:
    return [*same_answers.compare("ask", before, after)]


CELLS = FIRST, SECOND = ANSWER["cells"]
PASSES = {**SECOND, "outcome": "passes"}
ROW = '{"case": "one", "outcome": "passes", "precision": "fp32"}'


MOVED = '"case=one precision=fp32" -> "case=one precision=bf16"'


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (ANSWER, dict(reversed(ANSWER.items())), []),
        (CELLS, [FIRST, PASSES], ['case=one precision=bf16/outcome: "fails" -> "passes"']),
        (CELLS, [SECOND], [f"case=one precision=fp32: {ROW} -> missing"]),
        (CELLS, [SECOND, FIRST], [f"order: {MOVED}"]),
        ([FIRST], [{**FIRST, "new": 1}], ["case=one precision=fp32/new: missing -> 1"]),
        ({"n": 1}, {"n": True}, ["n: 1 -> true"]),
        ([1.0, 1.0], [1.0], ["1.0 #2: 1.0 -> missing"]),
        (float("nan"), float("nan"), []),
    ],
)
def test_what_differs_is_told_with_its_place_and_both_values(
    before: object, after: object, lines: list[str]
) -> None:
    assert _lines(before, after) == [f"ask: {line}" for line in lines]


def test_a_table_is_read_by_its_columns_and_their_order_is_data() -> None:
    read = [as_csv(Printed(code=0, out=out)) for out in ("case,n\none,1\n", "n,case\n1,one\n")]

    assert read[0] == {"columns": ["case", "n"], "rows": [{"case": "one", "n": "1"}]}
    assert _lines(*read) == ['ask: columns/order: "\\"case\\"" -> "\\"n\\""']


def test_where_neither_checkout_answers_and_where_exit_codes_differ_nothing_is_the_same() -> None:
    question = Question(arguments=("audit", "x"), read=as_json)
    refused = Printed(code=2, out="", err="x: no such file\n")
    wrong = Printed(code=70, out="{}", err="")

    assert [*same_answers.differences(question, [refused, wrong])] == [
        "audit x: answer: no answer, exit code 2: x: no such file -> no answer, exit code 70"
    ]
    printed = [Printed(code=code, out="{}") for code in (0, 1)]
    assert [*same_answers.differences(question, printed)] == ["audit x: exit: 0 -> 1"]


def test_an_accepted_difference_matches_the_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    entry = "[[accepted]]\nwhy = '{}'\npattern = '{}'\n"
    path.write_text(entry.format("Numbers.", "ask: n: .*") + entry.format("Others.", "n"))
    accepted = Accepted(path)
    (difference,) = same_answers.compare("ask", {"n": 1}, {"n": 2})

    assert accepted.holds(difference)
    assert accepted.counts == {"Numbers.": 1, "Others.": 0}
    path.write_text("[[accepted]]\npattern = '.*'\n")
    with pytest.raises(ValueError, match="needs `why`"):
        Accepted(path)


def _checkout(root: Path, extra: str = "{}", check: str = "ok") -> Path:
    """Make a checkout whose program prints its arguments."""
    files = {
        "repromatrix/__init__.py": "",
        "repromatrix/__main__.py": PROGRAM.format(extra=extra, check=check),
        "cases/one.py": CASE,
        "environments/matrix.toml": 'releases = [{ name = "4.50.0" }, { name = "4.51.0" }]\n',
        "environments/locks/4.50.0.txt": "transformers==4.50.0 \\\n    --hash=sha256:00\n",
        "environments/locks/4.50.0+peft0.15.2.txt": "peft==0.15.2\n",
        "reports/published/publications.toml": '[publications]\n"2026-11-21" = {}\n',
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def _ran(before: Path, after: Path, *words: str) -> int:
    return run.main(["same-answers", "--before", str(before), "--after", str(after), *words])


def test_two_checkouts_that_answer_alike_differ_in_nothing(tmp_path: Path) -> None:
    old = _checkout(tmp_path / "old", check="1 case is sound")
    new = _checkout(tmp_path / "new", check="Sound: 1")

    for command in ("results", "bisect", "check", "report"):
        assert _ran(old, new, "--only", command, "--quick") == 0


def test_a_planted_change_is_printed_and_can_be_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _checkout(tmp_path / "old")
    new = _checkout(tmp_path / "new", extra='{"planted": command}')
    accepted = tmp_path / "accepted.toml"
    entry = "[[accepted]]\nwhy = '{}'\npattern = '{}'\n"
    planted = entry.format("Planted.", ".*: data/planted: missing -> .*")
    accepted.write_text(planted)
    asked = "blame one --precision bf16 --good 4.50.0 --bad 4.51.0 --format json"

    assert _ran(old, new, "--only", "blame") == 1
    assert f'{asked}: data/planted: missing -> "blame"' in capsys.readouterr().out.splitlines()
    monkeypatch.setattr(same_answers, "ACCEPTED", accepted)
    assert _ran(old, new, "--only", "blame") == 0
    assert "Accepted, 2 times: Planted." in capsys.readouterr().out.splitlines()
    accepted.write_text(planted + entry.format("Idle.", "nothing"))
    monkeypatch.setattr(same_answers, "questions", lambda facts: questions(facts)[:2])
    assert _ran(old, new) == 1
    assert "Accepted, but it does not occur any more: Idle." in capsys.readouterr().out


def test_what_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _ran(tmp_path, tmp_path)

    assert ended.value.code == 2
    assert "matrix.toml" in capsys.readouterr().err


SLEEPS = """\
import os, pathlib, time
path = pathlib.Path(__file__).parents[1] / "pid"
path.with_suffix(".draft").write_text(str(os.getpid()))
path.with_suffix(".draft").rename(path)
time.sleep(600)
"""


def test_an_interrupted_comparison_leaves_no_process(tmp_path: Path) -> None:
    old = _checkout(tmp_path / "old")
    (old / "repromatrix" / "__main__.py").write_text(SLEEPS)
    words = ["same-answers", "--before", str(old), "--after", str(old)]
    command = [sys.executable, str(ROOT / "checks" / "run.py"), *words]
    with started(command, stderr=subprocess.PIPE) as asking:
        wait_until((old / "pid").exists)
        asking.terminate()
        _, told = asking.communicate(timeout=PATIENCE)

    said = "interrupted: tables that were not finished are not written"
    assert (asking.returncode, told.strip()) == (130, said)
    assert not is_alive(int((old / "pid").read_text()))
