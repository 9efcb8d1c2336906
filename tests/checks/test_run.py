"""`nox -s checks`: every check is listed and says what it is about; each gets its own options."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import PATIENCE, ignoring_sigint, started

from checks import run
from checks.table import Table
from repromatrix.runner.paths import ROOT

CHECK = re.compile(r"(?m)^def check\(table: Table")


def _listed(*words: str) -> str:
    command = [sys.executable, "checks/run.py", *words, "--help"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


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


INTERRUPTED = """
import pathlib, sys, time, types
sys.argv = ["run.py", "same-answers", "--before", ".", "--after", "."]
sys.path.insert(0, str(pathlib.Path.cwd()))
from checks import run

class Deaf:
    def __del__(self):
        print("asked", flush=True)
        time.sleep(1)

def check(table, options):
    Deaf()
    time.sleep(600)

sys.modules["checks.same_answers"] = types.SimpleNamespace(check=check)
try:
    run.main()
except run.Interrupted:
    sys.exit(130)
"""


@pytest.mark.parametrize("begun", [list, ignoring_sigint])
def test_an_interruption_that_python_or_a_shell_ignores_ends_a_check_all_the_same(
    begun: Callable[[list[str]], list[str]], tmp_path: Path
) -> None:
    with started(
        begun([sys.executable, "-u", "-c", INTERRUPTED]),
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as checks:
        assert checks.stdout
        said = [checks.stdout.readline() for _ in range(2)]
        checks.send_signal(signal.SIGINT)
        _, complaint = checks.communicate(timeout=PATIENCE)

    assert (said, complaint, checks.returncode) == (["# same-answers\n", "asked\n"], "", 130)
