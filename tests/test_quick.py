"""`--quick` leaves out what takes long, `--whole` adds what repeats a proof at length."""

from __future__ import annotations

import re
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


def test_quick_and_whole_exclude_each_other() -> None:
    command = [sys.executable, "-m", "pytest", "--quick", "--whole", str(ROOT / "tests" / "model")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--quick cannot be combined with --whole" in done.stderr
