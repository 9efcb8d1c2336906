"""The action, and the hook of pre-commit, as other repositories run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from programs import finished
from ruamel.yaml import YAML

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ACTION, HOOKS = ROOT / "action.yml", ROOT / ".pre-commit-hooks.yaml"
EXPRESSION = re.compile(r"\$\{\{ (\S+) \}\}")
# What stands in for the installed command: the checkout's own.
COMMAND = """#!/bin/sh
PYTHONPATH={root} exec {python} -m repromatrix "$@"
"""
# Stands in for the Python of a runner: it makes a folder, and installs the checkout alone.
PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip")
        [ "$*" = "-m pip install --quiet --disable-pip-version-check {root}" ] || exit 70
        cp {command} "$(dirname "$0")/repromatrix" ;;
    *) exit 70 ;;
esac
"""
LOCK = """\
version = 1
requires-python = ">=3.11"

[[package]]
name = "mine"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "accelerate" }, { name = "torch" }, { name = "transformers" }]

[[package]]
name = "accelerate"
version = "1.6.0"
source = { registry = "https://example.org/simple" }

[[package]]
name = "torch"
version = "2.13.0"
source = { registry = "https://example.org/simple" }

[[package]]
name = "transformers"
version = "4.50.0"
source = { registry = "https://example.org/simple" }
"""
ON_THE_LINE = "file=uv.lock,line=22"
SETTINGS = """\
[tool.repromatrix]
precisions = "bf16"
fail-on = "measured"
"""
ONE_CASE = "--case=gemma3_trainer_eval\n"


def read(path: Path) -> Any:  # noqa: ANN401 - as a file of YAML is
    return YAML(typ="safe").load(path)


@dataclass(kw_only=True, slots=True)
class Runner:
    """Where the action runs: a project, and what GitHub gives to a step."""

    project: Path
    folder: Path
    outputs: dict[str, str] = field(default_factory=dict)
    said: str = ""
    base: str = ""
    """The branch that a pull request is for."""

    @property
    def summary(self) -> str:
        path = self.folder / "summary.md"
        return path.read_text() if path.exists() else ""

    def run(self, **given: str) -> int:
        """Run the action with inputs, underscores for hyphens, up to the step that fails."""
        action = read(ACTION)
        inputs = {name: one["default"] for name, one in action["inputs"].items()}
        inputs |= {"python": str(self.folder / "python3")}
        inputs |= {name.replace("_", "-"): text for name, text in given.items()}
        values = {f"inputs.{name}": text for name, text in inputs.items()}
        values["github.action_repository"] = "owner/repromatrix"
        values |= {"github.base_ref": self.base, "github.event.number": "7" * bool(self.base)}
        for step in action["runs"]["steps"]:
            done = self._step(step, values)
            self.said += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
        return 0

    def _step(
        self, step: Mapping[str, Any], values: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        own = {
            name: EXPRESSION.sub(lambda found: values[found[1]], text)
            for name, text in step["env"].items()
        }
        told = self.folder / "told"
        places = {"GITHUB_OUTPUT": told, "GITHUB_STEP_SUMMARY": self.folder / "summary.md"}
        places |= {"GITHUB_ACTION_PATH": ROOT, "RUNNER_TEMP": self.folder / "temp"}
        done = finished(
            ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.project,
            env=os.environ | {name: str(path) for name, path in places.items()} | own,
        )
        if told.exists():
            self.outputs |= dict(line.split("=", 1) for line in told.read_text().splitlines())
        return done


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Return a runner with a made-up project whose lock has a known bug."""
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "store.sqlite"))
    project, folder = tmp_path / "project", tmp_path / "a runner"
    (project / ".git").mkdir(parents=True)
    (project / "uv.lock").write_text(LOCK)
    (project / "pyproject.toml").write_text(SETTINGS)
    (folder / "temp").mkdir(parents=True)
    command = folder / "repromatrix"
    words = {"root": shlex.quote(str(ROOT)), "python": shlex.quote(sys.executable)}
    command.write_text(COMMAND.format(**words))
    python = folder / "python3"
    python.write_text(PYTHON.format(root=ROOT, command=shlex.quote(str(command))))
    for one in (command, python):
        one.chmod(0o755)
    return Runner(project=project, folder=folder)


def test_the_action_is_one() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = finished([*command, "vendor.github-actions", str(ACTION)])

    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n"), done.stdout
    used = set(EXPRESSION.findall(ACTION.read_text()))
    assert used == {
        *(f"inputs.{name}" for name in read(ACTION)["inputs"]),
        *("github.action_repository", "github.base_ref", "github.event.number"),
        "steps.audit.outputs.exit-code",
    }


def test_the_action_shows_a_known_bug_on_the_line_of_the_lock_and_fails(runner: Runner) -> None:
    code = runner.run(arguments=ONE_CASE)

    assert (code, runner.outputs) == (1, {"exit-code": "1"}), runner.said
    assert f"::error {ON_THE_LINE},title=gemma3_trainer_eval (bf16%2C measured)::" in runner.said
    page = "https://owner.github.io/repromatrix/case/gemma3_trainer_eval.html"
    assert f"%0A{page}\n" in runner.said
    assert f"\n**[`gemma3_trainer_eval`]({page}): bf16, measured**\n" in runner.summary
    assert "\n- pinned at uv.lock:22\n" in runner.summary


def test_the_action_fails_on_what_is_configured_alone_and_writes_a_log(runner: Runner) -> None:
    arguments = f"{ONE_CASE}--precision=fp16\n--precision=bf16\n"
    code = runner.run(
        arguments=arguments, fail_on="derived", base_url="https://s", sarif="a log.sarif"
    )

    assert (code, runner.outputs) == (0, {"exit-code": "0"}), runner.said
    assert f"::warning {ON_THE_LINE}," in runner.said
    assert "::error" not in runner.said
    assert "(https://s/" in runner.summary
    log = json.loads((runner.project / "a log.sarif").read_text())
    assert [one["ruleId"] for one in log["runs"][0]["results"]] == ["gemma3_trainer_eval"]


# Stands in for git and for the program of GitHub: nothing is fetched or sent.
GIT = """#!/bin/sh
case "$1" in show) [ "$2" = FETCH_HEAD:uv.lock ] && sed 's/4.50.0/4.57.1/' uv.lock ;; esac
"""
TITLE = "Gemma 3 evaluation in the Trainer: 'HybridCache' object has no attribute 'float'"
GH = """#!/bin/sh
echo "$@" | sed 's/--body-file.*//' > sent && cat "$7" >> sent
"""


def test_the_action_comments_on_a_pull_request_with_what_its_change_does(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("git", GIT), ("gh", GH)):
        (runner.folder / name).write_text(text)
        (runner.folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(runner.folder), prepend=os.pathsep)
    runner.base = "main"
    code = runner.run(arguments=ONE_CASE, comment_token="a token")  # noqa: S106

    assert code == 1, runner.said
    sent, headline, *change = (runner.project / "sent").read_text().split("\n")
    assert sent == "pr comment 7 --edit-last --create-if-none "
    assert headline.startswith("**1 known bug (1 cell: 1 measured, 0 derived); ")
    assert change[1:] == [
        "**This change of versions, to transformers 4.50.0:**",
        "",
        f"- breaks: {TITLE} (gemma3\\_trainer\\_eval, bf16)",
        "- keeps 0 known bugs; 0 cells unknown (not a pass)",
        "",
        "",
    ]


def test_the_action_says_what_is_wrong_and_shows_no_answer(runner: Runner) -> None:
    assert runner.run(path="poetry.lock") == 2
    assert "poetry.lock: the file does not exist." in runner.said
    assert (runner.summary, runner.outputs) == ("", {"exit-code": "2"})

    (runner.project / "pyproject.toml").write_text("[tool.repromatrix]\nfail = 1\n")
    assert runner.run() == 2
    assert "pyproject.toml: tool.repromatrix.fail: unknown key." in runner.said


def test_the_hook_audits_the_lock_where_a_file_that_decides_has_changed(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hook,) = read(HOOKS)
    decides = re.compile(hook["files"])
    names = ("uv.lock", "a/requirements-dev.txt", "pylock.x.toml", "src/mine.py", "uv.lock.bak")
    monkeypatch.setenv("PATH", str(runner.folder), prepend=os.pathsep)
    done = finished([*shlex.split(hook["entry"]), *shlex.split(ONE_CASE)], cwd=runner.project)

    assert [name for name in names if decides.search(name)] == [*names[:3]]
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    assert done.returncode == 1
    assert "gemma3_trainer_eval: bf16, measured\n" in done.stdout
