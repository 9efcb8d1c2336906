"""The fakes, driven by the real engine in the real environment of one release."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner import project
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms, Unbuilt
from repromatrix.runner.execution.run import Run
from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.outcomes import Outcome
    from repromatrix.runner.project import Project

FAKES = Path(__file__).parents[1] / "fixtures" / "corpus"
"""Each without what all of them have in common: most of the block, and the call of `main`."""
RELEASE = "4.50.0"
_BLOCK = """\
# /// script
# requires-python = ">=3.10"
# dependencies = {dependencies}
#
# [tool.repromatrix]
# title = "A case that {title}"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# trigger = ["forward"]
# symptom = ["error"]
{rest}# ///
"""
_MAIN = """

if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
"""

# Wide enough for a fresh interpreter that imports torch; narrow enough to be eaten quickly.
LIMITS = Limits.model_validate({"seconds": 60, "memory": 768})


@functools.cache
def corpus() -> Path:
    """Return a folder with all fakes, each a whole case; it is removed when Python ends."""
    folder = Path(tempfile.mkdtemp(prefix="repromatrix-fakes-"))
    atexit.register(shutil.rmtree, folder)
    for path in FAKES.glob("*.py"):
        (folder / path.name).write_text(_whole(path))
    return folder


def _whole(path: Path) -> str:
    """Return a case with what all fakes have in common."""
    block, end, code = path.read_text().partition('# ///\n"""')
    lines = block.splitlines(keepends=True)[1:] if end else []
    stated = [line for line in lines if line.startswith("# dependencies = ")]
    code = f'"""{code}' if end else block
    return (
        _BLOCK.format(
            dependencies=stated[0].partition(" = ")[2].strip() if stated else "[]",
            title=path.stem.removeprefix("fake_").replace("_", " "),
            rest="".join(line for line in lines if line not in stated),
        )
        + code
        + (_MAIN if "\ndef main(" in code else "")
    )


def load(files: Sequence[Path] = ()) -> Project:
    """Read this checkout's environments with the fakes as its cases."""
    return project.load(Paths(), list(files) or sorted(corpus().glob("*.py")))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a run over fakes found, and what was left of it afterwards."""

    found: Mapping[str, Judged]
    folders_left: list[str]
    processes_left: list[int]
    children_left: list[int]

    def seen(self, name: str) -> Observation:
        return self.found[name].seen

    def outcomes(self) -> dict[str, tuple[Outcome, str]]:
        return {name: (one.seen.outcome, headline(one)) for name, one in self.found.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Drive:
    """One run over fakes: those that use torch in bf16, the others, quicker, in fp32."""

    loaded: Project
    folder: Path
    fork: bool = True
    witness: bool = True
    jobs: int = 2
    sandbox: bool = False
    apart: frozenset[str] = frozenset()
    """Cases that have a worker of their own, which is cheap to start again without torch."""

    def run(self) -> Ran:
        """Run every fake that applies, store what comes out, and judge what was stored."""
        temporary = self.folder / "temporary"
        temporary.mkdir()
        before = process_control.children(os.getpid())
        store = Store(self.folder / "store.sqlite", print)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(temporary))
            self._measure(store)
        judged = judge_all(store.rows(), self.loaded.cases, self.loaded.environments)
        store.close()
        return Ran(
            found={title(one.seen.cell): one for one in judged},
            folders_left=sorted(path.name for path in temporary.iterdir()),
            processes_left=processes_of(temporary),
            children_left=[
                pid for pid in process_control.children(os.getpid()) if pid not in before
            ],
        )

    def _measure(self, store: Store) -> None:
        campaign = self._campaign()
        cells = self._cells(campaign)
        shares = [[one for one in cells if (one.case in self.apart) is it] for it in (False, True)]
        units = [Unit(environment=RELEASE, cells=tuple(share)) for share in shares if share]
        for event in campaign.pool().run(units):
            assert not isinstance(event, Unbuilt), event
            if isinstance(event, Observation):
                store.put(event)

    def _campaign(self) -> Run:
        terms = Terms(
            run="fakes",
            limits=LIMITS,
            device=Device.CPU,
            jobs=self.jobs,
            fork=self.fork,
            witness=self.witness,
            sandbox=self.sandbox,
        )
        selection = select(
            SelectionRequest(release=[RELEASE]), self.loaded.cases, self.loaded.names
        )
        return Run(project=self.loaded, selection=selection, terms=terms, known={})

    def _cells(self, campaign: Run) -> tuple[Cell, ...]:
        due = campaign.due(self.loaded.environments[RELEASE])
        return tuple(cell for cell in due if cell.precision is self._precision(cell))

    def _precision(self, cell: Cell) -> Precision:
        needed = {item.name for item in self.loaded.cases[cell.case].head.dependencies}
        return Precision.BF16 if "torch" in needed else Precision.FP32


def title(cell: Cell) -> str:
    """Name a fake and its variant, as in `litters_folder + again`."""
    name = cell.case.removeprefix("fake_")
    return f"{name} + {cell.workaround}" if cell.workaround else name


def headline(one: Judged) -> str:
    """Return `Class: first line of the message`, or nothing."""
    return one.seen.failed.headline if one.seen.failed else ""


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that waits to be reaped by somebody else does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose environment names a folder, whoever their parents are."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in environ and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
