"""Environments and cells: what can be run, and where it applies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case, Demands
from repromatrix.runner.model.environment_name import stacked, taken_apart
from repromatrix.runner.model.outcomes import Device, Precision

PROTOCOL = 1
"""Raised when the way in which a cell is run changes what may come out of it."""


class Source(StrEnum):
    """What an environment is made from."""

    RELEASE = "release"
    MAIN = "main"
    PAIR = "pair"
    TORCH = "torch"
    STACK = "stack"
    INTERPRETER = "interpreter"

    @property
    def has_lock(self) -> bool:
        """Whether all that is installed is pinned in the repository."""
        return self not in {Source.MAIN, Source.INTERPRETER}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything that is installed together, by name."""

    name: str
    source: Source
    python: str
    pins: Mapping[str, str]
    markers: Mapping[str, str]
    built: tuple[str, ...] = ()
    """How packages of it were built, where their versions do not say it."""
    stated_digest: str = ""
    """The digest where not all that is installed is known, as of a published row."""
    unusable: str = ""
    """Why no case can be run here, whatever it needs."""

    @cached_property
    def digest(self) -> str:
        """Identity of what is installed, 16 hexadecimal digits."""
        if self.stated_digest:
            return self.stated_digest
        installed: dict[str, object] = {"python": self.python, "packages": dict(self.pins)}
        if self.built:
            installed["built"] = self.built
        return hashlib.sha256(json.dumps(installed, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def column(self) -> str:
        """The column of the table that it stands in: extras get no column of their own."""
        return taken_apart(self.name).base if self._is_dated else self.name

    @cached_property
    def extras(self) -> tuple[str, ...]:
        """The packages that are laid on top of a release."""
        return taken_apart(self.name).extras if self._is_dated else ()

    @cached_property
    def program(self) -> str:
        """The package that a stack is named after; empty where it is none."""
        found = stacked(self.name) if self.source is Source.STACK else None
        return found[0] if found else ""

    @property
    def _is_dated(self) -> bool:
        return self.source in {Source.RELEASE, Source.MAIN}

    @cached_property
    def _lacking(self) -> dict[Demands, tuple[str, ...]]:
        return {}

    def lacking(self, demands: Demands) -> tuple[str, ...]:
        """Name what of some demands does not hold here; many cases demand the same."""
        if demands not in self._lacking:
            asked = map(requirements.parse, demands.dependencies)
            found = list(requirements.unsatisfied(asked, self.pins, self.markers))
            allowed = SpecifierSet(demands.python)
            if not allowed.contains(self.python, prereleases=True):
                found.append(f"needs Python {demands.python}, has {self.python}")
            self._lacking[demands] = tuple(found)
        return self._lacking[demands]

    def version(self, package: str) -> str:
        """Return the version of a package, or nothing when it is not installed."""
        return self.pins.get(package, "")


class Cell(NamedTuple):
    """The unit that is run; `workaround` is empty for the plain case."""

    case: str
    workaround: str
    environment: str
    precision: Precision
    device: Device

    @property
    def line(self) -> Line:
        """What it has in common with the same cell in other environments."""
        return (self.case, self.workaround, self.precision, self.device)


Line = tuple[str, str, Precision, Device]
"""Case, workaround, precision and device."""


def cells_of(
    case: Case, environment: str, precisions: Iterable[Precision], device: Device
) -> Iterator[Cell]:
    """Yield every cell of a case in one environment, plain first."""
    for workaround in case.branches:
        for precision in precisions:
            yield Cell(case.name, workaround, environment, precision, device)


def belongs(case: Case, environment: Environment) -> bool:
    """Say whether a case has cells in an environment, be they applicable there or not."""
    match environment.source:
        case Source.RELEASE | Source.MAIN:
            return environment.extras == case.extras
        case Source.PAIR:
            return environment.name in case.block.environments
        case Source.TORCH:
            return taken_apart(environment.name).extras == case.extras
        case Source.STACK:
            return environment.program in case.packages
        case Source.INTERPRETER:
            return True


NEEDS_GPU = "needs cuda, runs on cpu"
"""The only obstacle of a cell that was not measured for want of a GPU: nobody knows its result."""


def obstacles(case: Case, environment: Environment, device: Device) -> tuple[str, ...]:
    """Name what keeps a case from being applicable in an environment; nothing when it is."""
    found = environment.lacking(case.demands)
    if environment.unusable:
        return (environment.unusable, *found)
    if "cuda" in case.block.needs and device is not Device.CUDA:
        return (*found, NEEDS_GPU)
    if device is Device.CUDA and case.block.processes > 1:
        # Each process would take a GPU of its own; several on one wait for each other, or crash.
        return (*found, f"needs {case.block.processes} GPUs, and a cell sees one")
    return found
