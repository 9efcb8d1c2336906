"""The workflows: valid, and their shell run on this machine with a few fakes."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from actions import Machine, read
from fakes import CORPUS
from needs import bubblewrap

from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MATRIX = ROOT / ".github" / "workflows" / "matrix.yml"
GIVEN = {
    "github.event_name == 'schedule' && 'main' || inputs.releases": "4.49.0,4.50.0",
    "inputs.count || '1'": "2",
    "steps.pages.outputs.base_url": "https://example.org/table",
    "github.server_url": "https://github.com",
    "github.repository": "someone/repromatrix",
}
CALM, UNEXPECTED = "fake_declines", "fake_passes_unexpectedly"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_holds_against_the_schema(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-workflows", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_has_a_version_and_every_job_says_no_more_than_it_needs(path: Path) -> None:
    workflow = read(path)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    writing = {
        name
        for name, job in workflow["jobs"].items()
        if "write" in job.get("permissions", {}).values()
    }

    assert [one for one in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", one)] == []
    assert (workflow["permissions"], writing) == ({"contents": "read"}, {"publish"})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_step_puts_an_expression_into_its_shell(path: Path) -> None:
    shells = [step.get("run", "") for job in read(path)["jobs"].values() for step in job["steps"]]

    assert [text for text in shells if "${{" in text] == []


def checkout(folder: Path, *names: str) -> Path:
    """Return a checkout with fakes for its cases and nothing published."""
    made = folder / "checkout"
    for part in ("repromatrix", "runner", "reports", "environments"):
        leave = shutil.ignore_patterns("__pycache__", "published", "site", "own-*")
        shutil.copytree(ROOT / part, made / part, ignore=leave, symlinks=True)
    (made / "cases").mkdir()
    for name in names:
        shutil.copy(CORPUS / f"{name}.py", made / "cases")
    return made


def machine(folder: Path, *names: str) -> Machine:
    """Return a machine that has worked out the shards."""
    where = checkout(folder, *names)
    one = Machine(folder=folder, checkout=where, workflow=read(MATRIX), given=dict(GIVEN))
    one.environ["REPROMATRIX_ENVIRONMENTS"] = str(Paths().built)
    ended = one.run("shards")
    assert ended.result == "success", ended.said
    return one


def lines(one: Machine) -> list[dict[str, str]]:
    """Return the jobs that the first job asks for."""
    found: list[dict[str, str]] = json.loads(one.given["needs.shards.outputs.matrix"])["include"]
    return found


def measure(one: Machine, line: dict[str, str]) -> tuple[str, str]:
    """Measure a shard; return what became of it, and what it said."""
    before = one.results.get("measure", "success")
    ended = one.run("measure", line)
    if before != "success":
        one.results["measure"] = before  # a job of several is as good as its worst
    return ended.result, ended.said


def both_measured(folder: Path, *names: str) -> Machine:
    """Return a machine on which both shards were measured."""
    one = machine(folder, *names)
    for line in lines(one):
        result, said = measure(one, line)
        assert result == "success", said
    return one


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return both_measured(tmp_path_factory.mktemp("calm"), CALM)


def again(measured: Machine, folder: Path) -> Machine:
    """Return a machine of its own with what another one measured."""
    shutil.copytree(measured.folder, folder, dirs_exist_ok=True)
    facts = {"given": dict(measured.given), "results": dict(measured.results)}
    return dataclasses.replace(measured, folder=folder, checkout=folder / "checkout", **facts)


@pytest.mark.builds
def test_shards_that_are_whole_are_merged_and_published(measured: Machine, tmp_path: Path) -> None:
    one = again(measured, tmp_path)
    table, publish = one.run("table"), one.run("publish")

    assert (table.result, publish.result) == ("success", "success"), table.said
    assert (one.site / "index.html").exists()
    assert "2-of-2.sqlite: 3 rows: 3 new" in table.said


@bubblewrap
@pytest.mark.builds
def test_a_shard_is_measured_in_a_sandbox(measured: Machine, tmp_path: Path) -> None:
    one = again(measured, tmp_path)
    shutil.rmtree(one.artifacts)
    result, said = measure(one, lines(one)[0])

    assert (result, "Sandboxed: a case has no network" in said) == ("success", True), said


@pytest.mark.builds
def test_an_unexpected_result_is_published_and_fails_the_last_job(tmp_path: Path) -> None:
    one = both_measured(tmp_path, CALM, UNEXPECTED)
    table, publish = one.run("table"), one.run("publish")

    assert table.result == "success", table.said
    assert f"fixed: {UNEXPECTED} fp32 on 4.50.0" in table.said
    assert (publish.result, publish.code) == ("failure", 1)
    assert (one.site / "index.html").exists()


@pytest.mark.builds
def test_without_every_shard_nothing_is_replaced_and_the_missing_one_is_named(
    measured: Machine, tmp_path: Path
) -> None:
    one = again(measured, tmp_path)
    one.site.mkdir()
    (one.site / "index.html").write_text("the full one from yesterday")
    shutil.rmtree(one.artifacts / "evidence-2-of-2")
    one.environ = {**one.environ, "FAKE_CODE": "130"}
    lost, said = measure(one, lines(one)[1])
    table, publish = one.run("table"), one.run("publish")

    assert (lost, table.result, publish.result) == ("failure", "failure", "skipped")
    assert "::error::shard 2/2 was not measured to its end (exit code 130)" in said
    assert "--whole: no 2/2, or not measured to its end" in table.said
    assert (one.site / "index.html").read_text() == "the full one from yesterday"


@pytest.mark.builds
def test_without_any_shard_nothing_is_published(measured: Machine, tmp_path: Path) -> None:
    one = again(measured, tmp_path)
    shutil.rmtree(one.artifacts)
    table, publish = one.run("table"), one.run("publish")

    assert (table.result, publish.result) == ("failure", "skipped")
    assert "--whole: no shard that was measured to its end" in table.said
    assert not one.site.exists()


@pytest.mark.builds
def test_a_shard_that_was_interrupted_counts_as_missing_though_its_file_is_there(
    measured: Machine, tmp_path: Path
) -> None:
    one = again(measured, tmp_path)
    half = one.artifacts / "evidence-1-of-2" / "1-of-2.sqlite"
    with closing(sqlite3.connect(half)) as database:
        database.execute("DELETE FROM shards")
        database.commit()
    table, publish = one.run("table"), one.run("publish")

    assert (table.result, publish.result) == ("failure", "skipped")
    assert "--whole: no 1/2, or not measured to its end" in table.said
    assert not one.site.exists()
