"""Run an unpacked bundle and log its progress."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner import project
from repromatrix.runner.errors import ExitCode, Interrupted, Problem, RunnerError, refuse
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.bundle import unpack as installed
from repromatrix.runner.execution.bundle.manifest import carried
from repromatrix.runner.execution.bundle.unpack import InstalledTorch, furnish, links
from repromatrix.runner.execution.events import Ready, Terms
from repromatrix.runner.execution.hardware import cores, demand
from repromatrix.runner.execution.run import Run, RunListener, known_rows
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project
from repromatrix.runner.signals import Interruption
from repromatrix.runner.text import join, plural

_EVERY = 5.0


class Lines(RunListener):
    """Listens to a run and says lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """Nothing was measured yet."""
        self.say = say
        self.cells = self.measured_cells = self.unexpected = 0
        self.start = self.told = time.monotonic()

    @property
    def summary(self) -> str:
        """What a run came to."""
        spent = time.monotonic() - self.start
        cells = plural(self.measured_cells, "cell")
        return f"{cells} measured in {spent:.0f} s, {plural(self.unexpected, 'unexpected result')}."

    def began(self, units: int, cells: int) -> None:
        """Say how much there is to do."""
        self.cells = cells
        self.say(f"{plural(cells, 'cell')} to run in {plural(units, 'environment')}.")

    def phase(self, environment: str, doing: str) -> None:
        """Say what is begun that takes long."""
        if doing in {"building", "importing"}:
            self.say(f"  {environment}: {doing}")

    def measured(self, row: Observation, verdict: Verdict) -> None:
        """Count a cell, say an unexpected result, and now and then how far the run is."""
        again = row.repeats > 1
        self.measured_cells += not again
        if verdict.is_unexpected and not again:
            self.unexpected += 1
            self.say(f"  {verdict}: {' '.join(filter(None, map(str, row.cell)))}: {row.described}")
        if time.monotonic() - self.told > _EVERY:
            self.told = time.monotonic()
            self.say(f"  {self.measured_cells} of {self.cells} cells{self._left()}")

    def _left(self) -> str:
        spent = time.monotonic() - self.start
        left = spent / max(1, self.measured_cells) * (self.cells - self.measured_cells)
        return f", about {max(1, round(left / 60))} min left"

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        """Say why an environment cannot run its cells."""
        self.say(f"  {environment}: {plural(cells, 'cell')} not run: {reason}")

    def done(self, environment: str) -> None:
        """Say that an environment has nothing left to run."""
        self.say(f"  {environment}: done, {self.measured_cells} of {self.cells} cells so far")


EVIDENCE = "evidence.sqlite"
_AT_ONCE = 4
"""Cells that share a GPU unless more are asked for: each holds a context of its own there."""


def measure(here: str, arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    once = Interruption()  # what is being ended must not be interrupted again
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, once)
    try:
        return _measure(Path(here), _options(arguments))
    except RunnerError as error:
        for fault in error.faults:
            _say(str(fault))
        return error.code
    except Interrupted:
        return ExitCode.INTERRUPTED


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure on this machine.")
    parser.add_argument("--device", choices=[*Device], default=Device.CUDA, type=Device)
    for name in ("release", "case", "precision", "workaround"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=0, help="processes at once")
    parser.add_argument("--rerun", action="store_true", help="run also what is known")
    return parser.parse_args(arguments)


def _measure(root: Path, options: argparse.Namespace) -> ExitCode:
    demand(options.device)
    _stay_within(root)
    here = Here.found(root)
    store = Store(root / EVIDENCE, _say)
    try:
        rows = list(store.rows())
        here.hold(rows)
        planned = _planned(here, options, rows)
        told = Lines(_say)
        tally = planned.execute(store, told, engine=planned.pool(here.prepare))
    finally:
        store.close()
    _say(f"{told.summary} The evidence: {EVIDENCE}; merge it with `nox -s merge -- {EVIDENCE}`.")
    if tally.interrupted:
        _say("Interrupted; what was measured is kept, and the next run goes on from here.")
        return ExitCode.INTERRUPTED
    if tally.unbuilt:
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if told.unexpected else ExitCode.AS_EXPECTED


def _stay_within(root: Path) -> None:
    """Let nothing be written outside of the bundle's folder."""
    for name in [name for name in os.environ if name.startswith("REPROMATRIX_")]:
        del os.environ[name]
    scratch = root / "work" / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)


def _planned(here: Here, options: argparse.Namespace, rows: list[Observation]) -> Run:
    wish = SelectionRequest(
        case=options.case,
        release=options.release,
        precision=options.precision,
        workaround=options.workaround,
        device=options.device,
    )
    at_once = cores() if options.device is Device.CPU else min(cores(), _AT_ONCE)
    limits = here.project.matrix.limits
    return Run(
        project=here.project,
        selection=select(wish, here.project.cases, here.project.names),
        terms=Terms(limits=limits, device=options.device, jobs=options.jobs or at_once),
        known=known_rows(rows, here.project),
        rerun=options.rerun,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Here:
    """An unpacked bundle on its machine: what it carries, with this machine's torch."""

    root: Path
    project: Project
    torch: InstalledTorch

    @classmethod
    def found(cls, root: Path) -> Here:
        """Read a bundle and look for torch; raises RunnerError."""
        loaded = project.load(Paths(root=root))
        some = {name: loaded.environments[name] for name in carried(root)}
        locked = set.intersection(*({*one.pins} for one in some.values())) - {"torch"}
        torch, linked = installed.find(locked)
        installed.link(linked, links(root))
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        environments = {
            # The lock is the same, and torch is named beside it as in every provenance.
            name: dataclasses.replace(
                one,
                python=python,
                pins={**one.pins, "torch": torch.version},
                stated_digest=one.digest,
            )
            for name, one in some.items()
        }
        held = dataclasses.replace(loaded, environments=environments)
        return cls(root=root, project=held, torch=torch)

    def hold(self, rows: Sequence[Observation]) -> None:
        """Raise RunnerError where the evidence at hand was measured with another torch."""
        others = {row.provenance.torch_build for row in rows} - {"", self.torch.version}
        if others:
            theirs, ours = join(sorted(others)), self.torch.version
            what = f"it was measured with torch {theirs}, and this Python has torch {ours}"
            raise refuse(Problem(EVIDENCE, what, "Move it away, or run with that torch."))

    def prepare(self, unit: Unit) -> Ready:
        """Make the environment of a unit."""
        environment = self.project.environments[unit.environment]
        built = furnish(self.root, unit.environment, self.torch, environment.pins)
        return Ready(environment=environment, built=built, cells=unit.cells)
