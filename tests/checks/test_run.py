"""`nox -s checks`: every check is listed and says what it is about; each gets its own options."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest
from programs import finished

from checks import run
from checks.table import Table
from repromatrix.runner.paths import ROOT

CHECK = re.compile(r"(?m)^def check\(table: Table")


def _listed(*words: str) -> str:
    command = [sys.executable, "checks/run.py", *words, "--help"]
    return finished(command, cwd=ROOT, check=True).stdout


def test_every_check_is_listed_with_a_line_of_its_own() -> None:
    written = {
        path.stem.replace("_", "-")
        for path in (ROOT / "checks").glob("*.py")
        if CHECK.search(path.read_text())
    }
    checks, benches = _listed(), _listed("bench")

    assert written == {*run.CHECKS, *run.BENCHES}
    assert [line.split()[0] for line in checks.partition("checks:\n")[2].splitlines()] == [
        *run.CHECKS
    ]
    assert all(f"--{name}" in benches for name in run.BENCHES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "invalid choice: 'nothing'"),
        ([], "the following arguments are required: NAME"),
        (["same-answers", "--before", "."], "needs --before PATH and --after PATH"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(words)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("found", "code"), [(0, 0), (1, 1)])
def test_a_check_that_finds_something_ends_with_1(
    found: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(table: Table, _: object) -> None:
        table.count("tries", 3, "losses", found)

    monkeypatch.setitem(sys.modules, "checks.same_answers", SimpleNamespace(check=check))

    assert run.main(["same-answers", "--before", ".", "--after", "."]) == code
