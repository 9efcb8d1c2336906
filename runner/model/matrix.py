"""`environments/matrix.toml`: the only list of releases in the repository."""

from __future__ import annotations

import datetime as dt
import tomllib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from runner.errors import Fault, refuse
from runner.model.outcomes import Precision
from runner.model.reading import Record, read

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = "main"
WHERE = "environments/matrix.toml"


class Release(Record):
    """One final, not yanked version of transformers, and the day it was published (UTC)."""

    name: str
    date: dt.date


class Torch(Record):
    """The one torch of every environment, and what it needs beside its accelerator packages."""

    version: str
    as_of: dt.date
    requires: tuple[str, ...]


class Limits(Record):
    """What a cell may use: seconds of wall time, MiB of resident memory of its process tree."""

    seconds: float
    memory: int


class Main(Record):
    """Where the development version comes from."""

    requirement: str


class Matrix(Record):
    """The axes."""

    precisions: tuple[Precision, ...]
    python: str
    companions: tuple[str, ...]
    extras: tuple[str, ...] = ()
    torch: Torch
    limits: Limits
    main: Main
    releases: tuple[Release, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every column of the table, oldest release first, `main` last."""
        return (*(release.name for release in self.releases), MAIN)

    def release(self, name: str) -> Release:
        """Return the release of that name; raises KeyError."""
        return {release.name: release for release in self.releases}[name]


def read_matrix(text: str) -> Matrix:
    """Read the axes; raises RunnerError when a key is wrong or the order is not by version."""
    try:
        table: Mapping[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refuse(Fault(where=WHERE, found=str(error), allowed="TOML 1.0")) from error
    matrix = read(Matrix, table, where=WHERE, prefix="matrix")
    names = [release.name for release in matrix.releases]
    for earlier, later in pairwise(names):
        if Version(earlier) >= Version(later):
            found = f"{later} after {earlier}"
            allowed = "each release once, in the order of their versions"
            raise refuse(Fault(where=WHERE, key="releases", found=found, allowed=allowed))
    return matrix
