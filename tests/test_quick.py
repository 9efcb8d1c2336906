"""What runs: `--quick` leaves out what takes long, `--whole` adds what repeats a proof at length,
and what lacks a tool is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from chromium import NAMES

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SLOW = ("builds", "browser", "cluster", "door", "whole")
PLAIN = "import pytest\n\ndef test_plain(): pass\n"
MARKED = "\n@pytest.mark.{marker}\ndef test_{marker}(): pass\n"


REAL = "\ndef test_real(real_site): pass\n"


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (["--quick"], ["plain"]),
        ([], ["plain", "builds", "browser", "cluster", "door"]),
        (["--whole"], ["plain", *SLOW, "real"]),
        (["--whole", "-m", "whole"], ["whole", "real"]),
    ],
)
def test_quick_is_a_part_of_the_default_and_that_of_the_whole(
    options: list[str], ran: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    marked = "".join(MARKED.format(marker=marker) for marker in SLOW)
    (tmp_path / "test_made_up.py").write_text(PLAIN + marked + REAL)
    config = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}"]
    chosen = [*options, "--collect-only", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *config, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    named = re.findall(r"test_made_up\.py::test_(\w+)", done.stdout)
    assert named == ran


LACKING = """
from needs import bubblewrap

def test_seen(browser): pass

@bubblewrap
def test_walled(): pass

def test_plain(): pass
"""


@pytest.mark.parametrize("parallel", [[], ["-n", "1"]])
def test_the_last_line_names_the_tests_that_lack_a_tool(
    parallel: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    (tmp_path / "test_made_up.py").write_text(LACKING)
    config = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}"]
    chosen = ["-q", "-p", "no:cacheprovider", *parallel, str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *config, *chosen]
    environ = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    *_, counts, last = done.stdout.splitlines()

    assert "1 passed, 2 skipped" in counts
    assert last == (
        "Tests left out: 1 of test_made_up.py (bubblewrap (bwrap) is not installed);"
        f" 1 of test_made_up.py (no Chromium ({', '.join(NAMES)}) on the path)."
    )


def test_quick_and_whole_exclude_each_other() -> None:
    command = [sys.executable, "-m", "pytest", "--quick", "--whole", str(ROOT / "tests" / "model")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--quick cannot be combined with --whole" in done.stderr
