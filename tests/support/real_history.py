"""A repository whose commits hold the packages of installed releases, and a search in it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from histories import git

from repromatrix.runner import project
from repromatrix.runner.bisect.clone import open_clone
from repromatrix.runner.bisect.commit_search import Inquiry, find_commits
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.environments import building, locks
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.bisect.commits import CommitAnswer
    from repromatrix.runner.project import Project

CASE = Paths().cases / "blip2_load_half.py"
MODEL = "src/transformers/models/blip_2/modeling_blip_2.py"
PLANTED = """
_STATE = 0
if _STATE == 7:
    raise NameError("it cannot be imported")
_forward = Blip2ForConditionalGeneration.forward
def _planted(self, *given, **named):
    if _STATE == 8:
        raise ValueError("it fails for another reason")
    if _STATE in (3, 5):
        raise RuntimeError("expected scalar type Float but found BFloat16")
    return _forward(self, *given, **named)
_planted.__code__ = _planted.__code__.replace(co_qualname="Blip2QFormerModel.forward")
Blip2ForConditionalGeneration.forward = _planted
"""
"""It fails where the case says that it does."""


class Real:
    """A repository whose commits hold the package of an installed release."""

    def __init__(self, folder: Path, loaded: Project) -> None:
        self.folder = folder
        self.loaded = loaded
        self.shas: dict[str, str] = {}
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main")

    def lay(self, release: str) -> None:
        there = self.folder / "src" / "transformers"
        shutil.rmtree(there, ignore_errors=True)
        built = building.build(self.loaded.paths, project.recipe(self.loaded, release))
        installed = next(built.folder.glob("lib/python*/site-packages/transformers"))
        shutil.copytree(installed, there, ignore=shutil.ignore_patterns("__pycache__"))
        (info,) = installed.parent.glob("transformers-*.dist-info")
        lines = (info / "METADATA").read_text().partition("\n\n")[0].splitlines()
        needs = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
        own = [needed for needed in needs if "extra ==" not in needed]
        (self.folder / "setup.py").write_text(f"setup(install_requires={own!r})\n")
        # A week after it: its own environment is then the newest one that is old enough.
        self.day = str(self.loaded.matrix.release(release).date + locks.COOLING)

    def plant(self, *states: int) -> None:
        """Commit one file again and again, as it would be in each state."""
        model = self.folder / MODEL
        honest = model.read_text()
        for state in states:
            model.write_text(honest + PLANTED.replace("_STATE = 0", f"_STATE = {state}"))
            self.commit(f"state {state}")

    def commit(self, name: str, message: str = "") -> None:
        git(self.folder, "add", "--all")
        told = ("--quiet", "--allow-empty", "--message", message or name)
        git(self.folder, "commit", *told, day=self.day)
        self.shas[name] = git(self.folder, "rev-parse", "HEAD").strip()

    def name(self, sha: str) -> str:
        return next(name for name, known in self.shas.items() if known == sha)


def found(real: Real, places: Paths, older: str, newer: str, **more: object) -> CommitAnswer:
    case = real.loaded.cases["blip2_load_half"]
    told: dict[str, object] = {"workaround": "", "precision": Precision.BF16, "device": Device.CPU}
    inquiry: dict[str, object] = {
        "asked": CaseQuestion(case=case, **told),  # type: ignore[arg-type]
        "edge": Edge.RISE,
        "older": real.loaded.environments[older],
        "newer": real.loaded.environments[newer],
    }
    asked = Inquiry(**{**inquiry, **more})  # type: ignore[arg-type]
    terms = Terms(limits=real.loaded.matrix.limits, device=Device.CPU)
    home = Home(paths=places, matrix=real.loaded.matrix, locks=real.loaded.locks)
    return find_commits(home, open_clone(real.folder), [asked], terms)[0]
