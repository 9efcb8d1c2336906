"""`bisect` as it is called: real releases, a real failure, and what cannot be meant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from programs import started

from repromatrix.runner.model.case import parse_script
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "repromatrix", "bisect"]
WINDOW = ["--precision", "bf16", "--release", ">=4.49,<4.51"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with an empty store of its own."""
    return os.environ | {"REPROMATRIX_STORE": str(tmp_path / "store.sqlite")}


def call(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


def script(folder: Path) -> Path:
    """Return a script that says nothing of itself: the code of a case, without its block."""
    text = (ROOT / "cases" / "gemma2_accelerate_outputs.py").read_text()
    path = folder / "mine.py"
    path.write_text(parse_script(text, "").code)
    return path


@pytest.mark.builds
def test_an_interrupted_search_of_a_script_of_ones_own_resumes_and_then_runs_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    command = [*COMMAND, str(script(tmp_path)), *WINDOW, "--format", "json"]
    with started(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stderr is not None
        for line in program.stderr:
            if "asking 4.50.1" in line:
                program.send_signal(signal.SIGINT)
                break
        out, _ = program.communicate(timeout=60)
    resumed, again = (call(environ, *command[len(COMMAND) :]) for _ in range(2))
    (so_far,), (found,), (known,) = (json.loads(one) for one in (out, resumed.stdout, again.stdout))

    assert (program.returncode, resumed.returncode, again.returncode) == (130, 0, 0)
    assert (so_far["ending"], so_far["ran"]) == ("open", ["4.50.3", "4.49.0"])
    assert (found["at"], found["ran"]) == ("4.50.0", ["4.50.1", "4.50.0"])
    assert found["answer"] == (
        "Broken in 4.50.0: 4.49.0 passes, 4.50.0 fails."
        " AttributeError: 'HybridCache' object has no attribute 'float'."
    )
    assert known == found | {"ran": []}


@pytest.mark.builds
@pytest.mark.whole
@pytest.mark.parametrize("edge", [[], ["--fix"]])
def test_every_search_that_is_really_run_agrees_with_evidence(
    environ: dict[str, str], edge: list[str]
) -> None:
    known = _answers(call(environ, "*", *edge, "--evidence-only", "--format", "json"))
    found = _answers(call(environ, "*", *edge, "--rerun", "--format", "json"))

    assert {search: known[search] for search in found} == found


def _answers(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return what was found along the releases, by case and precision."""
    return {
        (one["case"], one["precision"]): (one["ending"], one["before"], one["at"])
        for one in json.loads(done.stdout)
        if not any(" on " in point["release"] for point in one["points"])
    }
