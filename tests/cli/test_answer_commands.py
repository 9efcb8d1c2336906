"""`audit` and `advise` as they are called, on the published evidence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.evidence.commits import PinnedCommit, as_text
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a store: only what is published answers."""
    return os.environ | {"REPROMATRIX_STORE": str(tmp_path / "store.sqlite")}


def call(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "repromatrix", *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def lock(tmp_path: Path) -> str:
    """Return what the environment of 4.50.0 holds, with a torch of somebody's own."""
    pins = re.findall(
        r"(?m)^\S+==\S+(?: ; [^\\]+)?", (ROOT / "environments/locks/4.50.0.txt").read_text()
    )
    path = tmp_path / "requirements.txt"
    path.write_text("\n".join([*pins, "torch==2.6.0"]))
    return str(path)


def test_a_lock_of_a_measured_release_has_the_bugs_of_that_release(
    environ: dict[str, str], lock: str
) -> None:
    asked = ("--precision", "bf16", "--format")
    cells = json.loads(
        call(
            environ, "results", "--release", "4.50.0", "--workaround", "none", *asked, "json"
        ).stdout
    )
    done = call(environ, "audit", lock, *asked, "json")
    found = json.loads(done.stdout)
    failing = {
        one["case"]
        for one in cells
        if one["outcome"] in {"fails", "crashes", "times-out"} and one["exercised"] != "no"
    }

    assert done.returncode == 1
    assert {hit["case"] for hit in found["hits"]} == failing
    assert {cell["level"] for hit in found["hits"] for cell in hit["cells"]} == {"measured"}


def test_advice_cites_the_cell_that_broke_gemma_3(environ: dict[str, str]) -> None:
    done = call(
        environ,
        "advise",
        "--case",
        "gemma3_trainer_eval",
        "--precision",
        "bf16",
        "--format",
        "json",
    )
    found = json.loads(done.stdout)
    first = found["exclusions"][0]

    assert done.returncode == found["exit"] == 0
    assert (first["clause"], first["releases"]) == (">=4.51.0", ["4.50.3"])
    assert first["cites"][0]["error"] == (
        "AttributeError: 'HybridCache' object has no attribute 'float'"
    )


def test_the_example_in_python_says_what_the_command_says(
    environ: dict[str, str], lock: str
) -> None:
    examples = re.findall(r"(?s)```python\n(.*?)```", (ROOT / "docs/api.md").read_text())
    (code,) = (example for example in examples if "repromatrix.audit(" in example)
    shown = "\nprint(*[hit.case.name for hit in audit.hits])"
    asked = code.replace('"uv.lock"', repr(lock)) + shown
    example = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    done = call(environ, "audit", lock, "--precision", "bf16", "--format", "json")

    listed = [hit["case"] for hit in json.loads(done.stdout)["hits"]]

    assert example.stdout.splitlines()[-1].split() == listed


def test_the_commits_that_this_machine_found_are_named(
    environ: dict[str, str], lock: str, tmp_path: Path
) -> None:
    row = PinnedCommit(
        *("gemma3_trainer_eval", "", "bf16", "cpu", "fix", "4.50.3", "4.51.0"),
        package="transformers",
        commit="b" * 40,
        date="2025-03-28",
    )
    (tmp_path / "commits-store.csv").write_text(as_text([row]))

    done = call(environ, "audit", lock, "--case", row.case, "--precision", "bf16")

    assert f"fixed by commit {row.label}" in done.stdout


def test_an_answer_imports_nothing_that_only_other_questions_need() -> None:
    code = "import sys, repromatrix.runner.cli.audit; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    others = {
        *("sweep.history", "sweep.answers", "execution.sandbox", "worker.main"),
        *("evidence.store", "environments.locks", "audit.advice"),
    }

    found = {*done.stdout.split()}
    assert found.isdisjoint(f"repromatrix.runner.{name}" for name in others)
    assert found.isdisjoint({"torch", "pandas", "rich", "tarfile"})
