"""What CI runs: the README's commands, in a clone that has measured something."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from programs import finished

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# Stands in for nox, which would build an environment and test for half an hour.
NOX = """#!/usr/bin/env python3
import pathlib, sqlite3, sys
with open("asked", "a") as file:
    print(*sys.argv[1:], file=file)
if "matrix" in sys.argv:
    pathlib.Path(".repromatrix").mkdir()
    store = sqlite3.connect(".repromatrix/evidence.sqlite")
    store.execute("CREATE TABLE cells (environment, outcome)")
    store.executemany("INSERT INTO cells VALUES (?, ?)", {rows})
    store.commit()
    sys.exit({code})
"""
MEASURED = [("4.50.0", "fails"), ("4.50.0", "passes"), ("main", "unbuildable")]
MATRIX = "-s matrix -- --case gemma3_trainer_eval --release 4.50.0,main"


@pytest.mark.parametrize(
    ("rows", "code", "expected"),
    [
        (MEASURED, 4, (0, [MATRIX, ""])),
        (MEASURED, 0, (1, [MATRIX])),
        (MEASURED[:2], 4, (1, [MATRIX])),
    ],
)
def test_ci_tests_only_where_something_was_measured(
    rows: list[tuple[str, str]], code: int, expected: tuple[int, list[str]], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("pip", "nox", "chromium", "bwrap"):
        text = NOX.format(rows=rows, code=code) if name == "nox" else "#!/bin/sh\n"
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = finished([tmp_path / ".ci" / "run"], env=environ)

    assert (done.returncode, (tmp_path / "asked").read_text().splitlines()) == expected
