"""Run an unpacked bundle: link the torch of the machine, build environments, log progress."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from repromatrix.runner import project
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.errors import ExitCode, Interrupted, Problem, RunnerError, refuse
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Ready, Terms
from repromatrix.runner.execution.hardware import cores, demand
from repromatrix.runner.execution.run import Run, RunListener, known_rows
from repromatrix.runner.model.lock import left_out
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project
from repromatrix.runner.signals import answering
from repromatrix.runner.subprocesses import lock as lock_file
from repromatrix.runner.text import join, plural

NAME = "manifest.json"
TREES = "trees"
CONTENT = "packages"

Tree = dict[str, str]
"""The files of an environment's packages: path to the name of the content."""


def carried(root: Path) -> tuple[str, ...]:
    """Return the environments whose packages lie in an unpacked bundle."""
    return tuple(json.loads((root / NAME).read_text(encoding="utf-8"))["environments"])


def tree(root: Path, name: str) -> Tree:
    """Return the files of an environment of an unpacked bundle."""
    found: Tree = json.loads((root / TREES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def content(root: Path, name: str) -> Path:
    """Return where a content lies in an unpacked bundle."""
    return root / CONTENT / name[:2] / name[2:]


_MODULES = ("torch", "torchgen", "functorch")


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledTorch:
    """An installed torch: its version, and the folder in which its package lies."""

    version: str
    folder: Path


def find_torch(locked: Collection[str]) -> tuple[InstalledTorch, dict[str, Path]]:
    """Return this Python's torch, and what to link: the name in the link folder to the place.

    `locked` are packages that every environment brings itself. Raises RunnerError without torch.
    """
    try:
        torch = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        raise refuse(Problem("torch", "it is not installed for this Python")) from None
    folder = Path(str(torch.locate_file("torch"))).parent
    links = {name: folder / name for name in _MODULES if (folder / name).exists()}
    for found in _needed(torch, locked):
        links.update(_entries(found))
    return InstalledTorch(version=torch.version, folder=folder), links


def _needed(
    torch: metadata.Distribution, locked: Collection[str]
) -> Iterator[metadata.Distribution]:
    """Yield torch, what it needs beyond what is locked, and its accelerator packages."""
    others = [one.name for one in metadata.distributions() if one.name and left_out(one.name)]
    waiting, seen = [torch.name, *others], {*locked}
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        yield found
        asked = map(Requirement, found.requires or ())
        waiting += [
            one.name for one in asked if not one.marker or one.marker.evaluate({"extra": ""})
        ]


def _entries(found: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield what a distribution has at the top of its folder, its metadata with it."""
    tops = {file.parts[0] for file in found.files or () if ".." not in file.parts}
    for top in sorted(tops - {"__pycache__"}):
        if not re.search(r"\.pth$", top):  # it would act on the environment
            yield top, Path(str(found.locate_file(top)))


def link(links: dict[str, Path], folder: Path) -> None:
    """Make a folder of links anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, place in links.items():
        if place.exists():
            (folder / name).symlink_to(place)


_MARKER = "complete.json"
_MAKING = 900.0
"""Seconds for which another run may link the files of an environment."""


def furnish(root: Path, name: str, torch: InstalledTorch, pins: Mapping[str, str]) -> Built:
    """Return an environment of an unpacked bundle, made when it is absent or for another torch."""
    folder = root / "work" / "environments" / name
    python = folder / "bin" / "python"
    about = json.dumps([sys.executable, sys.version, torch.version, str(torch.folder), str(root)])
    lock = folder.with_name(f".{name}.making")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w", encoding="utf-8") as file:
        # A second run in the same folder may be making the same environment.
        with contextlib.suppress(OSError):  # some shared file systems know no locks
            if not lock_file(file.fileno(), _MAKING):
                msg = f"another run has been making it for {_MAKING:.0f} s"
                raise UnbuildableError(msg)
        marker = folder / _MARKER
        if not marker.exists() or marker.read_text(encoding="utf-8") != about:
            _make(root, name, folder)
            marker.write_text(about, encoding="utf-8")
    return Built(name=name, folder=folder, python=python, versions=pins, torch=torch.folder)


def _make(root: Path, name: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    minor = f"python3.{sys.version_info.minor}"
    packages = folder / "lib" / minor / "site-packages"
    for made in (folder / "bin", packages):
        made.mkdir(parents=True)
    # What `python -m venv` writes: some systems leave that module out.
    base = Path(getattr(sys, "_base_executable", sys.executable))
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n",
        encoding="utf-8",
        errors="surrogateescape",
    )
    for path, found in tree(root, name).items():
        _link(content(root, found), packages / path)
    # Torch is found behind the packages, and compiled files are kept in the bundle's folder.
    kept = repr(str(root / "work" / "bytecode"))
    (packages / "repromatrix.pth").write_text(
        f"{links(root)}\nimport sys; sys.pycache_prefix = {kept}\n",
        encoding="locale",  # which is how Python reads it
        errors="surrogateescape",
    )


def _link(lies: Path, wanted: Path) -> None:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(lies, wanted)
    except OSError:  # some file systems know no links
        shutil.copyfile(lies, wanted)


def links(root: Path) -> Path:
    """Return the folder through which torch is found; named so that no message tells its place."""
    return root / "work" / "torch" / "site-packages"


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
            left = self.cells - self.measured_cells
            seconds = (self.told - self.start) / max(1, self.measured_cells) * left
            minutes = f"about {max(1, round(seconds / 60))} min left"
            self.say(f"  {self.measured_cells} of {self.cells} cells, {minutes}")

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
    try:
        # What is being ended must not be interrupted again.
        with answering(signal.SIGINT, signal.SIGTERM, quiet=math.inf):
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
    # Nothing is written outside of the bundle's folder.
    for name in [name for name in os.environ if name.startswith("REPROMATRIX_")]:
        del os.environ[name]
    scratch = root / "work" / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)
    loaded, torch = _loaded(root)

    def prepare(unit: Unit) -> Ready:
        environment = loaded.environments[unit.environment]
        built = furnish(root, unit.environment, torch, environment.pins)
        return Ready(environment=environment, built=built, cells=unit.cells)

    store = Store(root / EVIDENCE, _say)
    try:
        rows = list(store.rows())
        others = {row.provenance.torch_build for row in rows} - {"", torch.version}
        if others:
            theirs = join(sorted(others))
            what = f"it was measured with torch {theirs}, and this Python has torch {torch.version}"
            raise refuse(Problem(EVIDENCE, what, "Move it away, or run with that torch."))
        planned = _planned(loaded, options, rows)
        told = Lines(_say)
        tally = planned.execute(store, told, engine=planned.pool(prepare))
    finally:
        store.close()
    _say(f"{told.summary} The evidence: {EVIDENCE}; merge it with `nox -s merge -- {EVIDENCE}`.")
    if tally.interrupted:
        _say("Interrupted; what was measured is kept, and the next run goes on from here.")
        return ExitCode.INTERRUPTED
    if tally.unbuilt:
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if told.unexpected else ExitCode.AS_EXPECTED


def _planned(loaded: Project, options: argparse.Namespace, rows: list[Observation]) -> Run:
    wish = SelectionRequest(
        case=options.case,
        release=options.release,
        precision=options.precision,
        workaround=options.workaround,
        device=options.device,
    )
    at_once = cores() if options.device is Device.CPU else min(cores(), _AT_ONCE)
    return Run(
        project=loaded,
        selection=select(wish, loaded.cases, loaded.names),
        terms=Terms(
            limits=loaded.matrix.limits, device=options.device, jobs=options.jobs or at_once
        ),
        known=known_rows(rows, loaded),
        rerun=options.rerun,
    )


def _loaded(root: Path) -> tuple[Project, InstalledTorch]:
    """Return what an unpacked bundle carries with this machine's torch; raises RunnerError."""
    loaded = project.load(Paths(root=root))
    some = {name: loaded.environments[name] for name in carried(root)}
    locked = set.intersection(*({*one.pins} for one in some.values())) - {"torch"}
    torch, linked = find_torch(locked)
    link(linked, links(root))
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
    return dataclasses.replace(loaded, environments=environments), torch
