"""`nox -s drills`: every drill is there, and says what it is about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from programs import PATIENCE, ignoring_sigint, started

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

DRILL = "\ndef drill(tally: Tally"
OF_ALL = {"--seed", "--count", "--record"}


def test_every_drill_is_listed_by_the_program_that_runs_them() -> None:
    command = [sys.executable, "drills/drills.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    written = [path for path in (ROOT / "drills").glob("*.py") if DRILL in path.read_text()]
    options = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  --")}

    assert (done.returncode, done.stderr) == (0, "")
    assert {f"--{path.stem.replace('_', '-')}" for path in written} == options - OF_ALL


@pytest.mark.parametrize("begun", [list, ignoring_sigint])
def test_an_interrupted_drill_ends_with_a_sentence(
    begun: Callable[[list[str]], list[str]], tmp_path: Path
) -> None:
    with started(
        begun([sys.executable, "-u", "drills/drills.py", "--isolation"]),
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as drills:
        assert drills.stdout
        first = drills.stdout.readline()
        drills.send_signal(signal.SIGINT)
        said, complaint = drills.communicate(timeout=PATIENCE)

    assert (first, complaint, drills.returncode) == ("# isolation\n", "", 130)
    assert said == "interrupted: tables that were not finished stay as they were\n"


DEAF = """
import os, runpy, signal, sys, time
import drills.isolation

class Deaf:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

def drill(tally):
    Deaf()
    time.sleep(600)

drills.isolation.drill = drill
sys.argv = ["drills.py", "--isolation"]
runpy.run_path("drills/drills.py", run_name="__main__")
"""


def test_an_interruption_that_python_ignores_ends_a_drill_all_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEAF],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert (done.stderr, done.returncode) == ("", 130)
    assert done.stdout.endswith("interrupted: tables that were not finished stay as they were\n")
