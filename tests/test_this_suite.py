"""The suite itself: what runs when, what each test has of its own, and that none runs for ever."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chromium import NAMES
from fakes import is_alive, processes_of
from limits import LONGER, SLOW
from programs import finished, started, wait_until

from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent


def run(
    folder: Path, text: str, *options: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pytest, as it is configured here, on a file of tests."""
    (folder / "conftest.py").symlink_to(HERE / "conftest.py")
    (folder / "test_made_up.py").write_text(text)
    config = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={folder}"]
    command = [sys.executable, "-m", "pytest", *config, "-q", "-p", "no:cacheprovider"]
    return finished([*command, *options, str(folder)], env={**os.environ, **(environ or {})})


# What runs


MARKED = "\n@pytest.mark.{marker}\ndef test_{marker}(): pass\n"
TESTS = "import pytest\n\ndef test_plain(): pass\ndef test_real(real_site): pass\n" + "".join(
    MARKED.format(marker=marker) for marker in sorted(SLOW)
)


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (["--quick"], {"plain"}),
        ([], {"plain", *SLOW} - {"whole"}),
        (["--whole"], {"plain", "real", *SLOW}),
    ],
)
def test_quick_is_a_part_of_the_default_and_that_of_the_whole(
    options: list[str], ran: set[str], tmp_path: Path
) -> None:
    done = run(tmp_path, TESTS, "--collect-only", *options)

    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert {*re.findall(r"test_made_up\.py::test_(\w+)", done.stdout)} == ran


def test_quick_and_whole_exclude_each_other(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS, "--quick", "--whole")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--quick cannot be combined with --whole" in done.stderr


LACKING = """
from needs import bubblewrap

def test_seen(browser): pass

@bubblewrap
def test_walled(): pass

def test_plain(): pass
"""


def test_the_last_line_names_the_tests_that_lack_a_tool(tmp_path: Path) -> None:
    done = run(tmp_path, LACKING, "-n", "1", environ={"PATH": str(tmp_path)})
    *_, counts, last = done.stdout.splitlines()

    assert "1 passed, 2 skipped" in counts
    assert last == (
        "Tests left out: 1 of test_made_up.py (bubblewrap (bwrap) is not installed);"
        f" 1 of test_made_up.py (no Chromium ({', '.join(NAMES)}) on the path)."
    )


# What a test has of its own


def test_a_test_and_what_it_starts_have_an_empty_store_of_their_own() -> None:
    show = "from repromatrix.runner.paths import Paths; print(Paths().store)"
    done = finished([sys.executable, "-c", show], cwd=ROOT, check=True)

    assert done.stdout.strip() == str(Paths().store)
    assert not Paths().store.exists()
    assert not Paths().store.is_relative_to(Paths().state)


# How long it may take


HANGS = """
import threading, time

def waits_in_a_thread():
    time.sleep(600)

def test_hangs():
    threading.Thread(target=waits_in_a_thread, daemon=True).start()
    time.sleep(600)

def test_is_run_nevertheless():
    pass
"""


def test_a_test_that_hangs_is_ended_with_the_stacks_of_all_threads(tmp_path: Path) -> None:
    done = run(tmp_path, HANGS, "-o", "timeout=1")

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "Failed: Timeout (>1.0s) from pytest-timeout." in done.stdout
    assert "test_made_up.py:9: Failed" in done.stdout
    assert "in waits_in_a_thread" in done.stdout


def test_every_test_has_a_limit_and_a_longer_one_where_something_is_built(
    request: pytest.FixtureRequest,
) -> None:
    shorter = float(request.config.getini("timeout"))
    limits = {marker: set[float]() for marker in (*LONGER, "")}
    for item in request.session.items:
        found = item.get_closest_marker("timeout")
        kinds = [mark.name for mark in item.iter_markers() if mark.name in LONGER]
        for kind in kinds or [""]:
            limits[kind].add(found.args[0] if found else shorter)

    assert limits[""] == {shorter}
    assert 0 < shorter < min(LONGER.values())
    assert all(least >= LONGER[kind] for kind, found in limits.items() for least in found if kind)


# The programs that tests start


def test_a_program_is_killed_with_its_group_where_its_block_fails(tmp_path: Path) -> None:
    below: list[int] = []
    begin = time.monotonic()

    def fail() -> None:
        command = ["sh", "-c", "sleep 600 & echo $!; wait"]
        environ = {**os.environ, "MARK": str(tmp_path)}
        with started(command, env=environ, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            below.extend([program.pid, int(program.stdout.readline())])
            pytest.fail("in the block")

    with pytest.raises(pytest.fail.Exception):
        fail()

    assert len(below) == 2
    wait_until(lambda: not any(map(is_alive, below)))
    assert processes_of(tmp_path) == []
    assert time.monotonic() - begin < 60


def test_a_program_that_ends_is_left_alone() -> None:
    with started(["sh", "-c", "exit 3"]) as program:
        pass

    assert program.returncode == 3


def test_no_test_starts_a_program_that_it_may_wait_for_without_a_limit() -> None:
    starting = [
        f"{path.relative_to(HERE)}:{node.lineno}"
        for path in sorted(HERE.rglob("*.py"))
        if "fixtures" not in path.parts and path.name != "programs.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Popen")
    ]

    assert starting == []
