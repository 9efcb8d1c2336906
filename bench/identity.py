"""Whether a cell of one release could answer for the next: the files that it really imports, byte
for byte, between neighbours.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import shared
from shared import HERE

from repromatrix.runner import project
from repromatrix.runner.execution.pool import wanted_imports
from repromatrix.runner.execution.worker_client import worker_environ
from repromatrix.runner.model.case import Isolation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared import Row

    from repromatrix.runner.project import Project

LINES = (
    ("4.50.0", "4.50.1", "4.50.2", "4.50.3"),
    ("4.57.3", "4.57.4", "4.57.5", "4.57.6"),
    ("5.22.0", "5.23.0"),
)
NAMED = "transformers/__init__.py"
"""The file that every import of transformers runs; it holds the version."""

Files = dict[str, str]


def measure(row: Row) -> None:
    """Compare what every case imports on neighbouring releases; `row` prints one number."""
    loaded = project.load(Paths())
    lines = [tuple(name for name in line if name in loaded.environments) for line in LINES]
    found = {name: _files(loaded, name) for line in lines for name in line}
    patches = [pair for line in lines[:-1] for pair in itertools.pairwise(line)]
    minors = list(itertools.pairwise(lines[-1]))
    for what, pairs in (("patch releases", patches), ("minor releases", minors)):
        whole = _share(found, pairs, lambda files: files)
        but = _share(found, pairs, lambda files: {**files, NAMED: ""})
        named = ", ".join(f"{old} → {new}" for old, new in pairs)
        row(f"{what}: same files, of cases", whole * 100, "%", named)
        row(f"{what}: same but for {NAMED}", but * 100, "%", "the version is in it")


def _share(
    found: Mapping[str, Mapping[str, Files]],
    pairs: list[tuple[str, str]],
    seen: Callable[[Files], Files],
) -> float:
    same = total = 0
    for old, new in pairs:
        for case in found[old].keys() & found[new].keys():
            total += 1
            same += seen(found[old][case]) == seen(found[new][case])
    return same / total


def _files(loaded: Project, name: str) -> dict[str, Files]:
    """Return what each case that forks imports from transformers on a release."""
    (one,) = (ready for ready in shared.prepared(loaded, [name]) if ready.name == name)
    names = dict.fromkeys(cell.case for cell in one.cells)
    cases = [loaded.cases[case] for case in names]
    forked = [case for case in cases if case.block.isolation is Isolation.FORK]
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers"
        asked = {
            "preload": wanted_imports(forked),
            "cases": [str(Path(case.path).resolve()) for case in forked],
            "folder": folder,
            "answers": str(answers),
        }
        subprocess.run(
            [one.built.python, HERE / "files.py"],
            input=json.dumps(asked),
            text=True,
            env=worker_environ(Path(folder), Device.CPU, 1) | {"HOME": folder},
            capture_output=True,
            check=False,
            timeout=600,
        )
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
    return {Path(line["case"]).stem: line["files"] for line in lines}
