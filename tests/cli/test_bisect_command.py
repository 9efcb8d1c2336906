"""`bisect` as it is called: real releases, a real failure, and what cannot be meant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from laboratory import Laboratory

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
    """Has a checkout, a clone, and a commit of main in which a failure was seen."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.places = small_checkout.checkout(folder / "ours")
        self.toy = Toy(places=self.places, text=factories.case_text(factories.BREAKS))
        self.folder = folder
        self.capsys = capsys

    def history(self, *states: str) -> Laboratory:
        self.lab = straight(self.folder / "theirs", states)
        self.sha = self.lab.history.shas[str(len(states) - 1)]
        self.seen = f"main@{self.sha[:12]}"
        return self.lab

    def bisect(self, **more: Any) -> ExitCode:  # noqa: ANN401 - any option
        options: dict[str, Any] = {"case": ["toy_breaks"], "precision": ["bf16"]}
        options |= {"seen": f"main@{self.sha}", "repo": [self.lab.clone], "sandbox": False}
        return find(self.places, BisectOptions(**(options | more)), Console(quiet=True))

    def told(self) -> str:
        return self.capsys.readouterr().out


@pytest.fixture
def reporter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Reporter:
    """Return a reporter whose trials take no time."""
    built = Built(name="4.50.3", folder=Path("nowhere"), python=Path("python"), versions={})
    monkeypatch.setattr(commit_environments, "build", lambda *_: built)
    monkeypatch.setattr(commit_trials, "measure", measure)
    return Reporter(tmp_path, capsys)


def test_a_break_between_the_newest_release_and_the_commit_needs_no_older_release(
    reporter: Reporter,
) -> None:
    reporter.toy.measured("    + ")
    reporter.history("works", "works", "breaks", "breaks")

    assert reporter.bisect() is ExitCode.AS_EXPECTED
    assert (
        f"  Broken after 4.50.3, by {reporter.seen}: 4.50.3 passes, {reporter.seen} fails."
        " ValueError: it breaks.\n"
    ) in reporter.told()


def test_with_commits_the_search_goes_on_between_that_release_and_the_commit(
    reporter: Reporter,
) -> None:
    reporter.toy.measured("    + ")
    lab = reporter.history("works", "works", "breaks", "breaks")
    code = reporter.bisect(commits=True, format="json")
    answer = json.loads(reporter.told())

    assert (code, answer["ending"]) == (ExitCode.AS_EXPECTED, "found")
    assert answer["commit"]["commit"] == lab.history.shas["2"]
    assert (answer["older"]["environment"], answer["newer"]["environment"]) == (
        "4.50.3",
        reporter.seen,
    )
    assert answer["newer"]["commit"] == reporter.sha
    # What is kept is about changes along releases.
    assert read_commits(reporter.places.commits) == {}


def test_an_older_break_is_found_below_the_commit(reporter: Reporter) -> None:
    reporter.toy.measured("++----")
    reporter.history("breaks", "breaks")

    assert reporter.bisect() is ExitCode.AS_EXPECTED
    told = reporter.told()
    assert "  Broken in 4.50.1: 4.50.0 passes, 4.50.1 fails. ValueError: it breaks.\n" in told
    assert f"  {reporter.seen}, where it was seen, fails, too.\n" in told


def test_a_fix_is_looked_for_above_the_commit(reporter: Reporter) -> None:
    reporter.toy.measured("     +")
    reporter.history("breaks", "breaks")

    assert reporter.bisect(fix=True, format="json") is ExitCode.AS_EXPECTED
    (found,) = json.loads(reporter.told())
    assert (found["before"], found["at"], found["ran"]) == (reporter.seen, "4.51.0", [])


def test_a_commit_that_passes_here_is_said_and_the_releases_are_searched(
    reporter: Reporter,
) -> None:
    reporter.toy.measured("++++++")
    reporter.history("works", "works")

    assert reporter.bisect() is ExitCode.NOT_REPRODUCED
    told = reporter.told()
    assert f"  {reporter.seen}, where it was seen, passes here.\n" in told


def test_a_commit_that_cannot_be_judged_ends_it(reporter: Reporter) -> None:
    reporter.toy.measured("++++++")
    reporter.history("works", "other")

    with pytest.raises(RunnerError, match=f"--seen: {reporter.seen} could not be judged") as caught:
        reporter.bisect()
    assert caught.value.code is ExitCode.UNDECIDED


def test_a_commit_is_searched_for_one_question_at_a_time(reporter: Reporter) -> None:
    reporter.toy.measured("++++++")
    reporter.history("works", "breaks")

    with pytest.raises(RunnerError, match="needs one case in one precision, and one clone"):
        reporter.bisect(precision=["bf16,fp32"], commits=True)
