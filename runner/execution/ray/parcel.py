"""What a node is sent, and the process there that reads it and answers with events.

It is sent its part of a run, the user's settings, and the runner as Ray's working directory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pickle
import re
import shutil
import signal
import sys
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner.environments import development, uv
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import ExitCode, Interrupted, InvalidValue, refuse
from repromatrix.runner.execution.events import Done, Event, Ready, Unbuilt
from repromatrix.runner.execution.hardware import has_cuda
from repromatrix.runner.execution.run import Run, every_cell, runner_files
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import CODE, ROOT, Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.project import Project
from repromatrix.runner.signals import answering
from repromatrix.runner.subprocesses import anonymous, message_pipe
from repromatrix.runner.worker import process_control


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """A unit, what was measured of it elsewhere and is yet to be confirmed, and the whole run."""

    planned: Run
    unit: Unit
    before: tuple[Observation, ...] = ()

    def packed(self) -> bytes:
        """Return it as bytes."""
        cut = dataclasses.replace(self, planned=_cut(self.planned, self.unit, self.before))
        return zlib.compress(pickle.dumps(cut), level=1)

    def prepare(self, unit: Unit) -> Ready:
        """Build the environment of the unit on this machine; raises UnbuildableError."""
        ready = self.planned.prepare(unit)
        asked = frozenset(unit.cells)
        cells = tuple(cell for cell in ready.cells if cell in asked)
        return dataclasses.replace(ready, cells=cells, before=self.before)


def unpacked(content: bytes) -> Parcel:
    """Return what was packed, with the cases and places of the checkout that this code is in."""
    parcel: Parcel = pickle.loads(zlib.decompress(content))  # noqa: S301 - our own driver sent it
    project = parcel.planned.project
    cases = {
        name: dataclasses.replace(case, path=str(ROOT / case.path))
        for name, case in project.cases.items()
    }
    # Ray counts what it gives out by the core.
    terms = dataclasses.replace(parcel.planned.terms, jobs=1)
    project = dataclasses.replace(project, cases=cases, paths=Paths())
    planned = dataclasses.replace(parcel.planned, project=project, terms=terms)
    return dataclasses.replace(parcel, planned=planned)


def _cut(planned: Run, unit: Unit, before: tuple[Observation, ...]) -> Run:
    project, name = planned.project, unit.environment
    cells = frozenset([*unit.cells, *(row.cell for row in before)])
    wanted = {cell.case for cell in cells}
    cases = {
        name: dataclasses.replace(case, path=shipped(case, project.paths))
        for name, case in project.cases.items()
        if name in wanted
    }
    cut = dataclasses.replace(
        project,
        cases=cases,
        environments={name: project.environments[name]},
        locks={name: project.locks[name]} if name in project.locks else {},
    )
    selection = dataclasses.replace(planned.selection, only=cells)
    known = {cell: planned.known[cell] for cell in cells if cell in planned.known}
    published = {cell: planned.published[cell] for cell in cells if cell in planned.published}
    return dataclasses.replace(
        planned,
        project=cut,
        selection=selection,
        known=known,
        published=published,
        asked=every_cell,  # the driver asked already, by all that is known
    )


_SECRET = re.compile(r"://[^/@]*:[^/@]*@|https?://[^/@]+@")
"""In an address of anything but git: those of git are parted from it."""


def choices(planned: Run) -> dict[str, str]:
    """Return torch's build, and the commit of `main` for all nodes, as environment variables.

    An address with a password stays here.
    Raises RunnerError where `main` is a folder of this machine: no node has it.
    """
    chosen = {"UV_TORCH_BACKEND": uv.torch_backend(), development.VARIABLE: _main(planned)}
    return {name: value for name, value in chosen.items() if value}


def _main(planned: Run) -> str:
    project = planned.project
    selected = planned.selection.environments
    if not any(project.environments[name].source is Source.MAIN for name in selected):
        return ""
    folder = os.environ.get(development.VARIABLE, "")
    try:
        origin = development.origin(project.matrix)
    except UnbuildableError:
        return ""  # perhaps a node reaches it; if none does, the column says why
    if "file://" in origin.requirement:
        expected = "a requirement or a repository that the nodes can reach"
        raise refuse(InvalidValue(development.VARIABLE, folder, expected))
    return "" if origin.told or _SECRET.search(origin.requirement) else origin.requirement


def write_code(project: Project, folder: Path) -> None:
    """Write what a node needs into a folder: runner, cases, locks and pins; nothing secret."""
    files = {"pyproject.toml": ROOT / "pyproject.toml", **dict(runner_files(project.paths))}
    for case in project.cases.values():
        files[shipped(case, project.paths)] = Path(case.path)
        for path in Path(case.beside).rglob("*.py") if case.beside else ():
            files[f"repromatrix/{path.relative_to(CODE.parent).as_posix()}"] = path
    for name, path in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def shipped(case: Case, paths: Paths) -> str:
    """Return where a case's file lies on a node: a file of somebody's own among the cases."""
    path = Path(case.path)
    if path.is_relative_to(paths.cases):
        return f"cases/{path.relative_to(paths.cases).as_posix()}"
    return f"cases/{path.name}"


def main() -> None:
    """Run the unit; a worker that ends ends this process, and with it everything below."""
    _root, _packages, worker, answering_through = sys.argv[1:]
    try:
        # What is being ended must not be interrupted again.
        with answering(signal.SIGINT, signal.SIGTERM, quiet=math.inf):
            # Ray's workers block signals, and a cell inherits what this process has.
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            process_control.signal_at_end_of_parent(signal.SIGTERM)
            if os.getppid() != int(worker):  # it ended before we asked
                sys.exit(ExitCode.INTERRUPTED)
            parcel = unpacked(sys.stdin.buffer.read())
            answers = message_pipe(int(answering_through), writes=True)
            with contextlib.closing(_events(parcel)) as events:
                for event in events:
                    answers.send(event)
    except (Interrupted, BrokenPipeError):
        sys.exit(ExitCode.INTERRUPTED)


def _events(parcel: Parcel) -> Generator[Event]:
    if parcel.planned.terms.device is Device.CUDA and not has_cuda():
        yield Unbuilt(unit=parcel.unit, reason="no NVIDIA driver is loaded there")
        return
    try:
        with contextlib.closing(parcel.planned.pool(parcel.prepare).run([parcel.unit])) as events:
            for event in events:
                # The driver knows itself when a unit is done.
                if not isinstance(event, Done):
                    yield event
    except OSError as error:  # a full disk, a folder that is not its own: another node has others
        yield Unbuilt(unit=parcel.unit, reason=anonymous(str(error)))
