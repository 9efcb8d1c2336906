"""A run in an unpacked bundle: the same engine, on packages that were carried there."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import project, running
from runner.campaign import Campaign, known_rows, local_terms
from runner.carrying import torch as installed
from runner.carrying.furnishing import furnish, links
from runner.carrying.lines import Lines
from runner.carrying.manifest import carried
from runner.engine.events import Ready
from runner.engine.hardware import cores, demand
from runner.engine.pool import Pool
from runner.errors import ExitCode, Fault, Interrupted, RunnerError, refuse
from runner.evidence.store import Store
from runner.interruption import Interruption
from runner.model.outcomes import Device
from runner.places import Places
from runner.planning.selection import Wish, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.carrying.torch import Torch
    from runner.model.observation import Observation
    from runner.planning.plan import Unit
    from runner.project import Project

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
        planned = _campaign(here, options, rows)
        told = Lines(_say)
        engine = Pool(planned.terms, planned.project.cases, here.prepare, planned.doubted)
        tally = running.run(planned, store, told, lambda _: None, engine)
    finally:
        store.close()
    _say(f"{told.summary} The evidence: {EVIDENCE}; merge it with `nox -s merge -- {EVIDENCE}`.")
    if tally.interrupted:
        _say("Interrupted; what was measured is kept, and the next run goes on from here.")
        return ExitCode.INTERRUPTED
    if tally.unbuilt:
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if told.surprises else ExitCode.AS_EXPECTED


def _stay_within(root: Path) -> None:
    """Let nothing be written outside of the bundle's folder."""
    for name in [name for name in os.environ if name.startswith("REPROMATRIX_")]:
        del os.environ[name]
    scratch = root / "work" / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)


def _campaign(here: Here, options: argparse.Namespace, rows: list[Observation]) -> Campaign:
    wish = Wish(
        case=options.case,
        release=options.release,
        precision=options.precision,
        workaround=options.workaround,
        device=options.device,
    )
    at_once = cores() if options.device is Device.CPU else min(cores(), _AT_ONCE)
    limits = here.project.matrix.limits
    return Campaign(
        project=here.project,
        selection=select(wish, here.project.cases, here.project.names),
        terms=local_terms(limits, options.device, options.jobs or at_once),
        known=known_rows(rows, here.project),
        rerun=options.rerun,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Here:
    """An unpacked bundle on its machine: what it carries, with this machine's torch."""

    root: Path
    project: Project
    torch: Torch

    @classmethod
    def found(cls, root: Path) -> Here:
        """Read a bundle and look for torch; raises RunnerError."""
        loaded = project.load(Places(root=root))
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
            found = f"evidence of torch {', '.join(sorted(others))}"
            remedy = "Move it away, or run with that torch."
            allowed = f"torch {self.torch.version}"
            raise refuse(Fault(where=EVIDENCE, found=found, allowed=allowed, remedy=remedy))

    def prepare(self, unit: Unit) -> Ready:
        """Make the environment of a unit."""
        environment = self.project.environments[unit.environment]
        built = furnish(self.root, unit.environment, self.torch, environment.pins)
        return Ready(environment=environment, built=built, cells=unit.cells)
