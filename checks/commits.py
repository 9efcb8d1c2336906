"""Count the trials of a search over 256 commits of one release's sources, which really run."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.paths import ROOT, Paths

CASE = "blip2_load_half"
OLDER, NEWER = "4.49.0", "4.50.0"
COMMITS, BREAKS, MOST = 256, 171, 10
MODEL = "src/transformers/models/blip_2/modeling_blip_2.py"
PLANTED = """
_STATE = {state:03}
_forward = Blip2ForConditionalGeneration.forward
def _planted(self, *given, **named):
    if _STATE >= {breaks}:
        raise RuntimeError("expected scalar type Float but found BFloat16")
    return _forward(self, *given, **named)
# It fails where the case says that it does.
_planted.__code__ = _planted.__code__.replace(co_qualname="Blip2QFormerModel.forward")
Blip2ForConditionalGeneration.forward = _planted
"""


def check(table: Table, _options: argparse.Namespace) -> None:
    """Search, and count."""
    with tempfile.TemporaryDirectory() as folder:
        clone = _clone(Path(folder) / "transformers")
        begin = time.perf_counter()
        answer = _bisect(Path(folder), clone)
        seconds = time.perf_counter() - begin
    is_other = answer["commit"]["subject"] != f"state {BREAKS}"
    trials, again = len(answer["trials"]), len(answer["confirmations"])
    table.count(f"a search over {COMMITS} commits", 1, "another commit found", is_other)
    table.count("its trials", trials, f"over {MOST}", max(0, trials - MOST))
    table.row("both sides once more", again, "", "beside the search")
    table.row("whole search", seconds, "s", "no installs")


def _clone(folder: Path) -> Path:
    """Write a repository of a release's sources, and 256 commits that change one file."""
    loaded = project.load(Paths(), [])
    for name in (OLDER, NEWER):
        built = building.build(loaded.paths, project.recipe(loaded, name))
        if name == OLDER:
            sources = next(built.folder.glob("lib/python*/site-packages/transformers"))
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(sources, folder / "src" / "transformers", ignore=ignored)
    honest = (folder / MODEL).read_text()
    (folder / "setup.py").write_text("setup(install_requires=[])\n")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message=state 0")
    _git(folder, "fast-import", "--quiet", given="".join(_stream(honest)))
    return folder


def _stream(honest: str) -> Iterator[str]:
    yield "reset refs/heads/main\nfrom refs/heads/main^0\n\n"
    for state in range(1, COMMITS + 1):
        text = honest + PLANTED.format(state=state, breaks=BREAKS)
        said = f"state {state}"
        yield "commit refs/heads/main\n"
        yield f"committer Bench <bench@example.org> {1_740_787_200 + state} +0000\n"
        yield f"data {len(said)}\n{said}\n"
        yield f"M 100644 inline {MODEL}\ndata {len(text.encode())}\n{text}\n"


def _git(folder: Path, *arguments: str, given: str = "") -> None:
    name = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
    subprocess.run(
        [shutil.which("git") or "git", *name, *arguments],
        cwd=folder,
        input=given.encode(),
        env={**os.environ, "GIT_COMMITTER_DATE": "2025-03-01T00:00:00+00:00"},
        check=True,
    )


def _bisect(folder: Path, clone: Path) -> dict[str, Any]:
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["REPROMATRIX_STORE"] = str(folder / "store.sqlite")
    ends = ["--release", f"{OLDER},{NEWER}", "--good", f"main~{COMMITS}", "--bad", "main"]
    wanted = [CASE, "--precision", "bf16", *ends, "--commits", "--repo", str(clone)]
    command = [sys.executable, "-m", "repromatrix", "bisect", *wanted, "--format", "json"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
