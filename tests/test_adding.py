"""What it takes to add an outcome: mypy names every file that has to say something of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ASKED = ("runner/model/outcomes.py", "reports/marks.py")
"""What mypy names. Beside these there is whatever makes the outcome, mostly
`runner/worker/cell_process.py`; and a mark of its own needs `style.css` and `query.js`."""
AT_MOST = 5
LAST = '    NOT_RUN = "not-run"\n'
ARM = re.compile(r"(?<=\| )Outcome\.NOT_RUN|(?<=case )Outcome\.NOT_RUN")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a copy of the source to which an outcome was added."""
    ignored = shutil.ignore_patterns("__pycache__", "site", "own-site", "published")
    for name in ("runner", "reports", "repromatrix"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    outcomes = tmp_path / ASKED[0]
    before = outcomes.read_text(encoding="utf-8")
    assert LAST in before
    outcomes.write_text(before.replace(LAST, f'{LAST}    SKIPPED = "skipped"\n'), encoding="utf-8")
    return tmp_path


@pytest.fixture
def cache(pytestconfig: pytest.Config) -> Path:
    """Return a folder that is there in the next run: without it mypy takes ten seconds."""
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("mypy-of-an-added-outcome")


def test_mypy_asks_in_two_files_for_an_added_outcome_and_nowhere_else(
    source: Path, cache: Path
) -> None:
    assert set(_faulty(source, cache)) == {*ASKED}
    assert len(ASKED) + len(("the producer", "style.css", "query.js")) <= AT_MOST

    for where in ASKED:
        path = source / where
        text = ARM.sub("Outcome.NOT_RUN | Outcome.SKIPPED", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")

    assert _faulty(source, cache) == []


def _faulty(source: Path, cache: Path) -> list[str]:
    """Return the files in which mypy finds errors."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "repromatrix"]
    done = subprocess.run(
        command, cwd=source, capture_output=True, text=True, timeout=150, check=False
    )
    found = re.findall(r"^repromatrix/(\S+?):\d+: error: ", done.stdout, re.MULTILINE)
    assert bool(found) == bool(done.returncode), done.stdout + done.stderr
    return found
