"""`bisect` as it is called: real releases, a real failure, and what cannot be meant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import factories
import pytest
import small_checkout
from laboratory import measure, straight
from programs import PATIENCE, started
from rich.console import Console
from small_checkout import Toy

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.cli.bisect import BisectOptions, find
from repromatrix.runner.environments import commits as commit_environments
from repromatrix.runner.environments.building import Built
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence.commits import read_commits
from repromatrix.runner.model.case import parse_script
from repromatrix.runner.paths import ROOT

COMMAND = [sys.executable, "-m", "repromatrix", "bisect"]


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
    text = (ROOT / "cases" / "paligemma2_trainer_eval.py").read_text()
    path = folder / "mine.py"
    path.write_text(parse_script(text, "").code)
    return path


@pytest.mark.builds
@pytest.mark.parametrize(
    ("releases", "at", "ran"),
    [
        ("4.49.0,4.50.0", "4.49.0", (["4.50.0"], ["4.49.0"])),
        pytest.param(
            *(">=4.49,<4.51", "4.50.1", (["4.50.3", "4.49.0"], ["4.50.1", "4.50.0"])),
            marks=pytest.mark.whole,
        ),
    ],
)
def test_an_interrupted_search_of_a_script_of_ones_own_resumes_and_then_runs_nothing(
    environ: dict[str, str],
    tmp_path: Path,
    releases: str,
    at: str,
    ran: tuple[list[str], list[str]],
) -> None:
    window = ["--precision", "bf16", "--release", releases]
    command = [*COMMAND, str(script(tmp_path)), *window, "--format", "json"]
    with started(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stderr is not None
        for line in program.stderr:
            if f"asking {at}" in line:
                program.send_signal(signal.SIGINT)
                break
        out, _ = program.communicate(timeout=PATIENCE)
    resumed, again = (call(environ, *command[len(COMMAND) :]) for _ in range(2))
    (so_far,), (found,), (known,) = (json.loads(one) for one in (out, resumed.stdout, again.stdout))

    assert (program.returncode, resumed.returncode, again.returncode) == (130, 0, 0)
    assert (so_far["ending"], so_far["ran"]) == ("open", ran[0])
    assert (found["at"], found["ran"]) == ("4.50.0", ran[1])
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


class Reporter:
    """Has a checkout, and a clone in whose newest commit a failure was seen."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.places = small_checkout.checkout(folder / "ours")
        Toy(places=self.places, text=factories.case_text(factories.BREAKS)).measured("++++++")
        self.lab = straight(folder / "theirs", ["works", "works", "breaks", "breaks"])
        self.capsys = capsys

    def bisect(self, **more: Any) -> ExitCode:  # noqa: ANN401 - any option
        options: dict[str, Any] = {"case": ["toy_breaks"], "precision": ["bf16"], "commits": True}
        options |= {"repo": [self.lab.clone], "sandbox": False, "format": "json"}
        options |= {"good": "v4.50.3", "bad": self.lab.history.shas["3"]}
        return find(self.places, BisectOptions(**(options | more)), Console(quiet=True))


@pytest.fixture
def reporter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Reporter:
    """Return a reporter whose trials take no time."""
    built = Built(name="4.50.3", folder=Path("nowhere"), python=Path("python"), versions={})
    monkeypatch.setattr(commit_environments, "build", lambda *_: built)
    monkeypatch.setattr(commit_trials, "measure", measure)
    return Reporter(tmp_path, capsys)


@pytest.mark.parametrize("text", ["", factories.case_text()], ids=["a case", "a script"])
def test_between_two_revisions_commits_are_searched_without_any_release(
    reporter: Reporter, tmp_path: Path, text: str
) -> None:
    """A script that describes no failure is searched for whatever it does."""
    path = tmp_path / "mine.py"
    path.write_text(text)
    code = reporter.bisect(case=[str(path)] if text else ["toy_breaks"])
    answer = json.loads(reporter.capsys.readouterr().out)

    assert (code, answer["ending"]) == (ExitCode.AS_EXPECTED, "found")
    assert answer["commit"]["commit"] == reporter.lab.history.shas["2"]
    assert [answer[end]["environment"] for end in ("older", "newer")] == ["", ""]
    # What is kept is about changes along releases.
    assert read_commits(reporter.places.commits) == {}


def test_two_revisions_are_searched_for_one_question_at_a_time(reporter: Reporter) -> None:
    with pytest.raises(RunnerError, match="needs one case in one precision, not toy_breaks fp32"):
        reporter.bisect(precision=["bf16,fp32"])
