"""`--quick` leaves out what builds something or needs a browser, a cluster or nox."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SLOW = ("builds", "browser", "cluster", "door", "whole")
PLAIN = "import pytest\n\ndef test_plain(): pass\n"
MARKED = "\n@pytest.mark.{marker}\ndef test_{marker}(): pass\n"


def test_quick_runs_only_tests_without_a_slow_marker(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    marked = "".join(MARKED.format(marker=marker) for marker in SLOW)
    (tmp_path / "test_made_up.py").write_text(PLAIN + marked)
    config = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}", "-v"]
    chosen = ["--quick", "-m", "", "-p", "no:cacheprovider", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *config, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "test_made_up.py::test_plain PASSED" in done.stdout
    assert f"1 passed, {len(SLOW)} deselected" in done.stdout
