"""What the searches cost: environments asked, seconds, trials. `nox -s bench -- --searches`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.releases import (
    ReleaseSearches,
    Search,
    failing_precisions,
    searches,
)
from repromatrix.runner.bisect.search import Edge, Sought
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.model.case import parse_script
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project

    Row = Callable[..., None]

AREAS = {"kv-cache", "loading"}
UNMEASURED = "llama_config_dtype_stale"
"""A case that every release can run, copied without its block so that nothing is known of it."""


def measure(row: Row) -> None:
    """Measure every number that is asked of a search; `row` prints one."""
    loaded = project.load(Paths())
    rows = answers.published_rows(loaded.paths)
    known = current(rows, loaded.cases, loaded.environments)[0]
    _environments(loaded, known, row)
    _unmeasured(row)
    _from_evidence(row)


def _environments(loaded: Project, known: dict[Cell, Observation], row: Row) -> None:
    """Count what searches ask if every run says what was published."""
    for edge in Edge:
        every = [one for one in _searches(loaded, edge) if one.runs]
        most = max(len(_asked([one], known)) for one in every)
        row(f"environments for one {edge}, at most", most, "of 76", "wanted: at most 9")
        ten = [
            one
            for one in every
            if one.question.case.block.area in AREAS and one.question.precision is Precision.BF16
        ]
        alone = sum(len(_asked([one], known)) for one in ten)
        together = len(_asked(ten, known))
        what = f"environments for {len(ten)} searches together"
        row(what, together, "", f"{alone} one by one; wanted: at most half")


def _searches(loaded: Project, edge: Edge) -> list[Search]:
    return [
        search
        for case in loaded.cases.values()
        for precision in failing_precisions(case, "", loaded.matrix.torch.version)
        for search in searches(
            CaseQuestion(case=case, workaround="", precision=precision, device=Device.CPU),
            Sought(edge=edge),
            loaded.environments,
        )
    ]


def _asked(wishes: list[Search], known: dict[Cell, Observation]) -> list[str]:
    def run(_: str, cells: Sequence[Cell], __: Sequence[str]) -> list[Observation]:
        return [known[cell] for cell in cells if cell in known]

    asking = ReleaseSearches(searches=list(wishes), known={})
    asking.go(run)
    return list(asking.ran)


def _unmeasured(row: Row) -> None:
    """Search a script of which nothing is known over all releases, really running it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unmeasured.py"
        text = (ROOT / "cases" / f"{UNMEASURED}.py").read_text()
        path.write_text(parse_script(text, "").code)
        begin = time.perf_counter()
        done = _bisect(folder, str(path), "--precision", "bf16", "--fix", "--format", "json")
        seconds = time.perf_counter() - begin
        (found,) = json.loads(done)
    row("an unmeasured script, environments run", len(found["ran"]), "", "wanted: at most 9")
    row("an unmeasured script, whole search", seconds, "s", found["answer"][:60])


def _from_evidence(row: Row) -> None:
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(5):
            begin = time.perf_counter()
            _bisect(folder, "gemma3_trainer_eval", "--precision", "bf16", "--fix")
            seconds.append(time.perf_counter() - begin)
    row("from evidence, 0 runs", statistics.median(seconds), "s", "wanted: under 1")


def _bisect(folder: str, *arguments: str) -> str:
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["REPROMATRIX_STORE"] = str(Path(folder) / "store.sqlite")
    command = [sys.executable, "-m", "repromatrix", "bisect", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout
