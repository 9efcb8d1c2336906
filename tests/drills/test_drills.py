"""`nox -s drills`: every drill is there, and says what it is about."""

from __future__ import annotations

import subprocess
import sys

from repromatrix.runner.paths import ROOT

DRILL = "\ndef drill(tally: Tally"
OF_ALL = {"--seed", "--count", "--record"}


def test_every_drill_is_listed_by_the_program_that_runs_them() -> None:
    command = [sys.executable, "drills/drills.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    written = [path for path in (ROOT / "drills").glob("*.py") if DRILL in path.read_text()]
    options = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  --")}

    assert (done.returncode, done.stderr) == (0, "")
    assert {f"--{path.stem.replace('_', '-')}" for path in written} == options - OF_ALL
