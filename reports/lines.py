"""The heads of the table: releases of one minor line stand together, all else stands alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from reports.phrases import visible
from runner.model.cell import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.model.cell import Environment

_FITS = 10
_VERSION = re.compile(r"(?<=[a-z-])(?=\d+\.)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One environment: its name, and what is left to say below the head of its line."""

    name: str
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The releases of one minor line, or one environment that is none."""

    label: str
    columns: tuple[Column, ...]
    parts: tuple[str, ...] = ()
    """The name in pieces where it is too long for a head: that of a pair or a stack."""

    @property
    def width(self) -> int:
        """How many columns stand below the head."""
        return len(self.columns)


def lines(environments: Sequence[Environment]) -> tuple[Line, ...]:
    """Group the columns by minor line: 4.50 holds 0, 1, 2 and 3."""
    grouped = groupby(environments, key=_line)
    return tuple(
        Line(label=label, columns=columns, parts=_parts(label, dated=dated))
        for (label, dated), items in grouped
        if (columns := tuple(_column(item, label) for item in items))
    )


def _line(environment: Environment) -> tuple[str, bool]:
    """Return what heads an environment, and whether that is a place in time."""
    if environment.source is Source.RELEASE:
        return _minor_line(environment.name), True
    return environment.name, environment.source is Source.MAIN


@cache
def _minor_line(name: str) -> str:
    try:
        version = Version(name)
    except InvalidVersion:
        return name
    return f"{version.major}.{version.minor}"


def _parts(label: str, *, dated: bool) -> tuple[str, ...]:
    """Cut a name into pieces that fit into the head: `4.53.3`, `peft0.15.2`."""
    pieces = [] if dated else label.split("+")
    cut = (_VERSION.split(piece) if len(piece) > _FITS else [piece] for piece in pieces)
    return tuple(visible(part) for parts in cut for part in parts)


def _column(environment: Environment, line: str) -> Column:
    rest = environment.name.removeprefix(line).removeprefix(".")
    return Column(name=environment.name, label=rest)
