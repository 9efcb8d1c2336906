"""The workflows: valid, and their shell run on this machine with a few fakes."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from actions import Machine, read
from factories import BREAKS, case_text
from fakes import corpus
from histories import History, sources
from needs import bubblewrap
from programs import finished
from small_checkout import Toy
from toys import copied

from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

CI = ROOT / ".github" / "workflows" / "ci.yml"
DISTRIBUTION = ROOT / ".github" / "workflows" / "distribution.yml"
WHOLE = ROOT / ".github" / "workflows" / "whole.yml"
PAGES = ROOT / ".github" / "workflows" / "pages.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYPROJECT = ROOT / "pyproject.toml"
SWEEP = ROOT / ".github" / "workflows" / "sweep.yml"
MATRIX = ROOT / ".github" / "workflows" / "matrix.yml"
GIVEN = {
    "github.event_name == 'schedule' && 'main' || inputs.releases": "4.49.0,4.50.0",
    "inputs.count || '1'": "2",
    "steps.pages.outputs.base_url": "https://example.org/table",
    "github.server_url": "https://github.com",
    "github.repository": "someone/repromatrix",
    "github.event_name": "schedule",
    "github.token": "a token",
}
WRITING = {
    "publish": {"pages": "write", "id-token": "write"},
    "issues": {"issues": "write"},
}
"""The jobs that may write, and all that they may."""
CALM, UNEXPECTED = "fake_declines", "fake_passes_unexpectedly"


def test_every_workflow_holds_against_the_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = finished([*command, "vendor.github-workflows", *WORKFLOWS])

    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_has_a_version_no_shell_an_expression_and_every_job_only_its_rights(
    path: Path,
) -> None:
    workflow = read(path)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    writing = {
        name: granted
        for name, job in workflow["jobs"].items()
        if "write" in (granted := job.get("permissions", {})).values()
    }

    assert [name for name in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", name)] == []
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []
    assert workflow["permissions"] == {"contents": "read"}
    assert {name: WRITING[name] for name in writing} == writing


def checkout(folder: Path, *names: str) -> Path:
    """Return a checkout with fakes for its cases and nothing published."""
    made = folder / "checkout"
    copied(made)
    shutil.copytree(ROOT / "environments", made / "environments")
    (made / "cases").mkdir()
    for name in names:
        shutil.copy(corpus() / f"{name}.py", made / "cases")
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


@pytest.mark.whole
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


MAIN = f"4.52.0.dev0+g{'a' * 12}"
"""A commit that the clone lacks: a search over commits ends before it runs anything."""


def night(folder: Path) -> Machine:
    """Return a machine on which a night's shards were merged; on main a case fails."""
    where = checkout(folder)
    places = Paths(root=where)
    Toy(places, case_text(BREAKS)).measured("+----+").on_main(MAIN, "-", "-")
    one = Machine(folder=folder, checkout=where, workflow=read(MATRIX), given=dict(GIVEN))
    one.results["table"] = "success"
    one.given["needs.table.outputs.code"] = "1"
    one.given["needs.table.outputs.base_url"] = "https://example.org/table"
    evidence = one.artifacts / "evidence-1-of-1"
    evidence.mkdir(parents=True)
    shutil.move(places.store, evidence / "1-of-1.sqlite")
    shutil.rmtree(places.store.parent)
    history = History()
    history.commit("first", sources("4.51.0", "works"))
    history.tag("v4.51.0", "first")
    (folder / "github" / "huggingface").mkdir(parents=True)
    history.write(folder / "github" / "huggingface" / "transformers")
    return one


def opened(one: Machine) -> list[dict[str, str]]:
    """Return the issues of the repository."""
    return [json.loads(line) for line in one.issues.read_text().splitlines()]


@pytest.mark.parametrize("state", ["open", pytest.param("closed", marks=pytest.mark.whole)])
def test_what_is_new_on_main_becomes_one_issue_and_no_second(tmp_path: Path, state: str) -> None:
    machine = night(tmp_path)
    explain, issues = machine.run("explain"), machine.run("issues")

    assert (explain.result, issues.result) == ("success", "success"), explain.said + issues.said
    (issue,) = opened(machine)
    first, *body = issue["body"].splitlines()
    assert {name: text for name, text in issue.items() if name != "body"} == {
        "title": "toy_breaks fails on main in bf16 and fp16: ValueError: it breaks",
        "label": "unexpected-on-main",
        "state": "open",
    }
    assert re.fullmatch("<!-- repromatrix: toy_breaks [0-9a-f]{12} -->", first)
    assert "[A toy breaks](https://example.org/table/case/toy_breaks.html)" in body[0]
    assert "- no commit: invalid value 'aaaaaaaaaaaa'; expected a commit, a tag" in "\n".join(body)

    known = issue | {"state": state}
    machine.issues.write_text(json.dumps(known) + "\n")
    again = machine.run("issues")
    explain, issues = machine.run("explain"), machine.run("issues")

    assert (again.result, explain.result, issues.result) == ("success", "success", "skipped")
    assert "there is an issue about it" in again.said
    assert "Known: toy_breaks fails on main in bf16 and fp16" in explain.said
    assert opened(machine) == [known]


def test_by_day_and_where_nothing_is_unexpected_no_issue_is_looked_for(tmp_path: Path) -> None:
    one = night(tmp_path)
    for changed in ({"github.event_name": "push"}, {"needs.table.outputs.code": "0"}):
        quiet = dataclasses.replace(one, given={**one.given, **changed})

        assert (quiet.run("explain").result, quiet.run("issues").result) == ("skipped",) * 2


@pytest.mark.whole
@pytest.mark.builds
@bubblewrap
def test_every_night_a_shard_of_the_architectures_is_swept(tmp_path: Path) -> None:
    """With two releases in place of `main`, and three architectures of which the shard has one."""
    where = checkout(tmp_path)
    (where / "sweep" / "recipes").mkdir()
    for kind in ("bert", "gpt2", "llama"):
        shutil.copy(ROOT / "sweep" / "recipes" / f"{kind}.json", where / "sweep" / "recipes")
    given = {
        "github.event_name == 'schedule' && 'main' || inputs.release": "5.23.0",
        "inputs.against": "4.50.0",
    }
    one = Machine(folder=tmp_path, checkout=where, workflow=read(SWEEP), given=given)
    one.environ["REPROMATRIX_ENVIRONMENTS"] = str(Paths().built)
    lines = one.workflow["jobs"]["sweep"]["strategy"]["matrix"]["include"]
    ended = one.run("sweep", lines[1])

    assert ended.result == "success", ended.said
    told = (one.artifacts / "sweep-second" / "all.txt").read_text()
    assert told.startswith("5.23.0 against 4.50.0\n")
    assert "1 architecture: gpt2" in told
    assert told in one.summary.read_text()
    assert [line["shard"] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]


ASKED = """#!/bin/sh
echo "nox $*" >> "$ASKED"
[ "$*" != "$FAILING" ]
"""
"""Stands in for nox, which would test for half an hour."""
RUNS_ON_MACOS = re.compile(r"nox -s tests -- --quick (tests/\S+(?: tests/\S+)*)")


def asked(folder: Path, job: str, failing: str = "nothing") -> tuple[str, list[str]]:
    """Run a job of ci.yml; return what became of it, and what nox was asked."""
    told = folder / "asked"
    one = Machine(folder=folder, checkout=ROOT / ".ci", workflow=read(CI), given={})
    one.tools["nox"] = ASKED
    one.environ |= {"ASKED": str(told), "FAILING": failing}
    return one.run(job, {"python": "3.12"}).result, told.read_text().splitlines()


def test_ci_runs_the_command_of_the_readme_on_each_python_and_fails_where_it_does(
    tmp_path: Path,
) -> None:
    linux = read(CI)["jobs"]["linux"]
    pythons = linux["strategy"]["matrix"]["python"]
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT.read_text())

    assert linux["steps"][-1] == {"run": "pip install nox && nox"}
    assert "```sh\npip install nox && nox\n```" in (ROOT / "README.md").read_text()
    assert pythons == named
    assert asked(tmp_path, "linux") == ("success", ["nox "])
    assert asked(tmp_path, "linux", failing="") == ("failure", ["nox "] * 2)


def test_every_test_is_run_each_night_and_before_a_wheel_is_built() -> None:
    nightly, distribution = read(WHOLE), read(DISTRIBUTION)
    jobs = nightly["jobs"]["whole"], distribution["jobs"]["whole"]

    assert [job["steps"][-1] for job in jobs] == [
        {"run": "pip install nox && nox -s tests -- --whole"}
    ] * 2
    assert jobs[0]["steps"] == jobs[1]["steps"]
    assert distribution["jobs"]["build"]["needs"] == "whole"
    assert distribution["jobs"]["audit"]["needs"] == "build"


def test_on_macos_ci_tests_rooms_that_there_are(tmp_path: Path) -> None:
    result, (check, tests) = asked(tmp_path, "macos")
    found = RUNS_ON_MACOS.fullmatch(tests)

    assert (result, check) == ("success", "nox -s check")
    assert found, tests
    assert [path for path in found[1].split() if not (ROOT / path).exists()] == []


def test_pages_renders_and_deploys_what_is_published(tmp_path: Path) -> None:
    where = checkout(tmp_path, CALM)
    one = Machine(folder=tmp_path, checkout=where, workflow=read(PAGES), given=dict(GIVEN))
    render, publish = one.run("render"), one.run("publish")

    assert (render.result, publish.result) == ("success", "success"), render.said
    assert "https://example.org/table" in (one.site / "404.html").read_text()
