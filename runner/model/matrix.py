"""`environments/matrix.toml`: the only list of releases in the repository."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated

from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import AfterValidator, Field

from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.model.environment_name import stacked, taken_apart, under_torch
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.toml import RequirementText, TomlRecord, read, read_table
from repromatrix.runner.text import join

MAIN = "main"
WHERE = "environments/matrix.toml"


def _version(text: str) -> str:
    try:
        Version(text)
    except ValueError as error:  # also for a number of 5,000 digits
        message = "a version looks like 4.50.0"
        raise ValueError(message) from error
    return text


VersionText = Annotated[str, AfterValidator(_version)]


def _package(text: str) -> str:
    if canonicalize_name(text) != text:
        message = f"the canonical name is {canonicalize_name(text)}"
        raise ValueError(message)
    return text


PackageName = Annotated[str, AfterValidator(_package)]


class Release(TomlRecord):
    """One final, not yanked version of transformers, and the day it was published (UTC)."""

    name: VersionText
    date: dt.date = Field(ge=dt.date(2000, 1, 1), lt=dt.date(3000, 1, 1))


class Stack(TomlRecord):
    """A version of a program that is built on transformers, and what is installed with it.

    `beside` are requirements of the stack itself, `overrides` take the place of what any package
    in it says of those that they name.
    """

    name: str
    date: dt.date = Field(ge=dt.date(2000, 1, 1), lt=dt.date(3000, 1, 1))
    beside: tuple[RequirementText, ...] = ()
    overrides: tuple[RequirementText, ...] = ()

    @property
    def package(self) -> str:
        """The program."""
        return (stacked(self.name) or ("", ""))[0]

    @property
    def version(self) -> str:
        """The version of the program."""
        return (stacked(self.name) or ("", ""))[1]


class Sdist(TomlRecord):
    """A package that the index has as an sdist alone, built with the torch of its environment.

    `requires` is what it needs beside torch, `beside` what it needs of torch's own packages, which
    not every build of torch brings, and `told` the variables that its build is given.
    """

    name: PackageName
    version: VersionText
    requires: tuple[RequirementText, ...] = ()
    beside: tuple[RequirementText, ...] = ()
    told: Mapping[str, str] = {}

    @property
    def how(self) -> str:
        """How it is built: part of what an environment is, as its versions do not say it."""
        told = (f"{name}={value}" for name, value in sorted(self.told.items()))
        return " ".join([self.name, "told", *told, "beside", *map(str, self.beside)])


class OtherTorch(TomlRecord):
    """Another torch, under which releases are measured as well.

    `requires` is what it needs in a version that the lock of no release has. Of the releases that
    are `unimportable` no model can be imported under it: no case is about that.
    """

    version: VersionText
    requires: tuple[RequirementText, ...] = ()
    unimportable: tuple[VersionText, ...] = ()

    @property
    def lock(self) -> str:
        """The name of its lock, which is laid over that of a release."""
        return f"torch{self.version}"


class TorchPin(TomlRecord):
    """The torch of every environment, and what it needs beside its accelerator packages.

    A version of a package in `built_against` goes with one torch; it is as young as torch is.
    `others` are laid over releases on demand.
    """

    version: VersionText
    as_of: dt.date
    requires: tuple[str, ...]
    built_against: tuple[str, ...] = ()
    others: tuple[OtherTorch, ...] = ()

    def other(self, version: str) -> OtherTorch | None:
        """Return the other torch of that version; None where none is declared."""
        return next((one for one in self.others if one.version == version), None)

    def unusable(self, release: str, version: str) -> str:
        """Say why no case can be run on a release under another torch; empty where it can."""
        other = self.other(version)
        broken = other is not None and release in other.unimportable
        return f"transformers {release} imports no model under torch {version}" if broken else ""


class Limits(TomlRecord):
    """What a cell may use: seconds of wall time, MiB of resident memory of its process tree.

    And how many MiB its files may take, and how many processes and threads it may have at once.
    """

    seconds: float = Field(gt=0, allow_inf_nan=False)
    memory: int = Field(gt=0)
    disk: int = Field(default=4096, gt=0)
    processes: int = Field(default=512, gt=0)


class Main(TomlRecord):
    """Where the development version comes from."""

    requirement: str


class Matrix(TomlRecord):
    """The axes."""

    precisions: tuple[Precision, ...]
    python: str = Field(pattern=r"^\d{1,3}\.\d{1,3}$")
    companions: tuple[str, ...]
    extras: tuple[str, ...] = ()
    torch: TorchPin
    limits: Limits
    main: Main
    releases: tuple[Release, ...] = Field(min_length=1)
    stacks: tuple[Stack, ...] = ()
    sdists: tuple[Sdist, ...] = ()

    @property
    def pinned(self) -> tuple[str, ...]:
        """Every environment that has a whole lock of its own: releases, then stacks."""
        return (*(each.name for each in self.releases), *(each.name for each in self.stacks))

    def release(self, name: str) -> Release:
        """Return the release of that name; raises KeyError."""
        return {release.name: release for release in self.releases}[name]

    def stack(self, name: str) -> Stack | None:
        """Return the stack of that name; None where it names something else."""
        return next((stack for stack in self.stacks if stack.name == name), None)

    def unusable(self, name: str, unresolved: str) -> str:
        """Say why no case can be run in an environment; empty where it can.

        `unresolved` is why its extras cannot be installed, as their lock says.
        """
        under, torch = under_torch(name) or (name, "")
        if not torch and not unresolved:
            return ""
        parts = taken_apart(under)
        if unresolved:
            return f"{join(parts.extras)} beside {parts.base}: {unresolved}"
        return self.torch.unusable(parts.base, torch)

    def sdists_among(self, pins: Mapping[str, str]) -> tuple[Sdist, ...]:
        """Return what of these packages (canonical name to version) is built from an sdist."""
        return tuple(one for one in self.sdists if pins.get(one.name) == one.version)


def read_matrix(text: str) -> Matrix:
    """Read the axes; raises RunnerError when a key is wrong or the order is not by version."""
    matrix = read(Matrix, read_table(text, WHERE), where=WHERE, prefix="matrix")
    names = [release.name for release in matrix.releases]
    for earlier, later in pairwise(names):
        if Version(earlier) >= Version(later):
            fix = "Name each release once, in the order of their versions."
            raise refuse(Problem(f"{WHERE}: releases", f"{later} stands after {earlier}", fix))
    known: set[str] = set()
    for stack in matrix.stacks:
        if stacked(stack.name) is None or stack.name in known:
            expected = "a package and its version with a dot, such as ms-swift3.3.0, each once"
            raise refuse(InvalidValue(f"{WHERE}: stacks", stack.name, expected))
        known.add(stack.name)
    return matrix
