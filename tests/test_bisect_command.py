"""`bisect` as it is called: real releases, a real failure, and what cannot be meant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from histories import History, sources
from rich.console import Console

from runner.commands.bisect import Options, search
from runner.errors import ExitCode, RunnerError
from runner.model.outcomes import Device
from runner.model.script import parse_script
from runner.places import ROOT, Places

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "runner", "bisect"]
WINDOW = ["--precision", "bf16", "--release", ">=4.49,<4.51"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with an empty store of its own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"REPROMATRIX_STORE": str(tmp_path / "store.sqlite")}


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
def test_a_script_of_ones_own_is_bisected_with_the_fewest_runs_and_then_with_none(
    environ: dict[str, str], tmp_path: Path
) -> None:
    path = script(tmp_path)
    done = call(environ, str(path), *WINDOW, "--format", "json")
    again = call(environ, str(path), *WINDOW, "--format", "json")
    (found,), (known,) = json.loads(done.stdout), json.loads(again.stdout)

    assert (done.returncode, again.returncode) == (0, 0)
    assert found["answer"] == (
        "Broke in 4.50.0: 4.49.0 passes, 4.50.0 fails."
        " AttributeError: 'HybridCache' object has no attribute 'float'."
    )
    assert (found["ran"], known["ran"]) == (["4.50.3", "4.49.0", "4.50.1", "4.50.0"], [])
    assert known == found | {"ran": []}


@pytest.mark.builds
def test_an_interrupted_search_says_how_far_it_came_and_resumes(
    environ: dict[str, str], tmp_path: Path
) -> None:
    path = script(tmp_path)
    command = [*COMMAND, str(path), *WINDOW, "--format", "json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        for line in program.stderr:
            if "asking 4.50.1" in line:
                program.send_signal(signal.SIGINT)
                break
        out, _ = program.communicate(timeout=60)
    (so_far,) = json.loads(out)
    (rest,) = json.loads(call(environ, *command[len(COMMAND) :]).stdout)

    assert (program.returncode, so_far["ran"]) == (130, ["4.50.3", "4.49.0"])
    assert so_far["ending"] == "open"
    assert (rest["at"], rest["ran"]) == ("4.50.0", ["4.50.1", "4.50.0"])


@pytest.mark.builds
@pytest.mark.whole
@pytest.mark.parametrize("edge", [[], ["--fix"]])
def test_every_search_that_is_really_run_agrees_with_evidence(
    environ: dict[str, str], edge: list[str]
) -> None:
    known = _answers(call(environ, "*", *edge, "--plan", "--format", "json"))
    found = _answers(call(environ, "*", *edge, "--rerun", "--format", "json"))

    assert {search: known[search] for search in found} == found


def _answers(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return what was found along the releases, by case and precision."""
    return {
        (one["case"], one["precision"]): (one["ending"], one["before"], one["at"])
        for one in json.loads(done.stdout)
        if not any(" on " in point["release"] for point in one["points"])
    }


def test_from_evidence_no_run_is_needed(environ: dict[str, str]) -> None:
    done = call(environ, "gemma3_trainer_eval", "--precision", "bf16", "--fix")

    assert (done.returncode, done.stderr) == (0, "0 runs needed.\n")
    assert done.stdout.startswith(
        "gemma3_trainer_eval, bf16\n  Healed in 4.51.0: 4.50.3 fails, 4.51.0 passes."
    )


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["t5_keep_fp32_bf16", "--precision", "fp32"], 5, "Did not reproduce"),
        (["fnet_fourier_half", "--precision", "bf16", "--fix"], 6, "Not healed: 5.23.0 fails."),
        (["fnet_fourier_half", "--precision", "bf16"], 6, "Fails already in 4.49.0"),
    ],
)
def test_what_is_no_transition_has_a_code_of_its_own(
    environ: dict[str, str], arguments: list[str], code: int, expected: str
) -> None:
    done = call(environ, *arguments)

    assert done.returncode == code
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "CASE: found nothing; allowed: a case, a script, or --area.\n"),
        (
            ["fnet_fourier_half", "--format", "xml"],
            "--format: found 'xml'; allowed: text, markdown, json.\n",
        ),
        (
            ["nowhere/mine.py", "--precision", "bf16"],
            "nowhere/mine.py: found no such file; allowed: a script.\n",
        ),
    ],
)
def test_bad_input_is_said(environ: dict[str, str], arguments: list[str], expected: str) -> None:
    done = call(environ, *arguments)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


def test_a_case_that_no_chosen_release_can_run_is_no_answer(environ: dict[str, str]) -> None:
    done = call(environ, "gemma3_trainer_eval", "--precision", "bf16", "--release", "4.49.0")

    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        "",
        (
            "CASE: found no release that can run it (gemma3_trainer_eval: needs"
            " transformers>=4.50, has 4.49.0); allowed: at least one release.\n"
        ),
    )


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.engine.hardware.has_cuda", lambda: False)
    options = Options(
        cases=["gemma3_trainer_eval"],
        area=[],
        release=[],
        precision=["fp32"],
        workaround="",
        device=Device.CUDA,
        format="text",
        command=[],
    )
    with pytest.raises(RunnerError) as caught:
        search(Places(), options, Console(stderr=True))

    assert (caught.value.code, str(caught.value)) == (
        ExitCode.BAD_INPUT,
        "--device: found cuda, and no NVIDIA driver is loaded; allowed: cpu on this machine.",
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = History()
    history.commit("a", sources("4.50.0", "works"))
    return history.write(tmp_path_factory.mktemp("history") / "transformers")


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (["--repo", "nowhere"], "nowhere: found no such folder"),
        (["--repo", "{clone}", "--good", "gone"], "--good: found 'gone'; allowed: a commit"),
        (["--repo", "{clone}", "--bad", "gone"], "--bad: found 'gone'; allowed: a commit"),
    ],
)
def test_a_clone_that_does_not_serve_is_refused_before_anything_is_run(
    environ: dict[str, str], clone: Path, more: list[str], fault: str
) -> None:
    named = [word.format(clone=clone) for word in more]
    done = call(environ, "blip2_load_half", "--precision", "bf16", "--commits", *named)

    assert (done.returncode, done.stdout) == (2, "")
    assert fault in done.stderr
    assert "runs needed" not in done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_without_a_boundary_there_are_no_commits_to_search(
    environ: dict[str, str], clone: Path, form: str
) -> None:
    asked = ["t5_keep_fp32_bf16", "--precision", "fp32", "--format", form]
    done = call(environ, *asked, "--commits", "--repo", str(clone))

    assert done.returncode == 7
    assert "Did not reproduce" in done.stdout
    assert "--commits: found no boundary of two releases, hence no commits" in done.stderr


def test_a_script_that_names_no_precision_has_to_be_given_one(
    environ: dict[str, str], tmp_path: Path
) -> None:
    done = call(environ, str(script(tmp_path)))

    assert (done.returncode, done.stderr) == (
        2,
        (
            "--precision: found nothing; allowed: fp32, bf16, fp16."
            " mine does not say in which precision it fails.\n"
        ),
    )
