"""The grid: rows of cases and workarounds, columns of releases, a mark per precision."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape
from packaging.version import InvalidVersion, Version

from repromatrix.reports.marks import SeenMark
from repromatrix.reports.text import in_address, visible
from repromatrix.reports.view import Once, Stack, Survey
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.outcomes import Device, Precision

_FITS = 10
_VERSION = re.compile(r"(?<=[a-z-])(?=\d+\.)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One environment: its name, and its label below the head of its line."""

    name: str
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseLine:
    """The releases of one minor line, or one environment that is none."""

    label: str
    columns: tuple[Column, ...]
    parts: tuple[str, ...] = ()
    """The name in pieces where it is too long for a head: that of a pair or a stack."""

    @property
    def width(self) -> int:
        """The number of columns below the head."""
        return len(self.columns)


def lines(environments: Sequence[Environment]) -> tuple[ReleaseLine, ...]:
    """Group the columns by minor line: 4.50 holds 0, 1, 2 and 3."""
    grouped = groupby(environments, key=_line)
    return tuple(
        ReleaseLine(label=label, columns=columns, parts=_parts(label, dated=dated))
        for (label, dated), items in grouped
        if (
            columns := tuple(
                Column(name=item.name, label=item.name.removeprefix(label).removeprefix("."))
                for item in items
            )
        )
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


def cells(stacks: Iterable[StackColumn]) -> Markup:
    """Write the cells of a row; HTML lets the end of a cell be left out."""
    # Joined as plain strings: Markup would look at each of them again.
    return Markup("".join(map(_cell, stacks)))  # noqa: S704 - escaped below


@lru_cache(maxsize=4096)
def _cell(stack: StackColumn) -> str:
    rule = ' class="o"' if stack.opens else ""
    says = f' data-says="{escape(stack.says)}"' if stack.says else ""
    marks = "".join(
        f'<i class="{escape(mark.style)}">{escape(mark.glyph)}</i>' for mark in stack.marks
    )
    return f"<td{rule}{says}>{marks}"


_APART = frozenset({Source.PAIR, Source.STACK})


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownMark:
    """A mark as it is drawn: its classes and its glyph."""

    style: str
    glyph: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StackColumn:
    """The marks of one row in one column: one where they agree, none where there is no cell."""

    marks: tuple[ShownMark, ...] = ()
    says: str = ""
    """The number of the text of each mark, or one for all; empty for the usual text."""
    opens: bool = False
    """Whether it is the first of its line, which gets a rule on its left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GridRow:
    """A case or one of its workarounds; `extras` is the suffix of its environments."""

    kind: str
    label: str
    href: str
    detail: str
    badges: tuple[str, ...]
    extras: str
    stacks: tuple[StackColumn, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GridTable:
    """The table of one case on one device."""

    device: Device
    lines: tuple[ReleaseLine, ...]
    rows: tuple[GridRow, ...]
    precisions: tuple[Precision, ...]
    words: dict[str, Any]
    """What marks say: the usual text of each class, every other text, and the device if named."""
    apart: str
    """`stack` or `pair` where all columns are such environments, else empty."""


def grid(survey: Survey, case: Case, device: Device) -> GridTable:
    """Return the grid of a case on one device."""
    columns = [
        column
        for column in _columns(survey, case)
        if survey.is_asked(case.name, survey.standing(case, column.name), device)
    ]
    heads = lines(columns)
    standing = [survey.standing(case, column.name) for column in columns]
    shown = survey.stacks(case.name)
    found = {
        workaround: [shown[workaround, device].get(name, ()) for name in standing]
        for workaround in case.branches
    }
    words = _words(
        (seen for row in found.values() for stack in row for seen in stack), survey.on(device)
    )
    sources = {column.source for column in columns} - {Source.INTERPRETER}
    draw = _GridPen(words, [place == 0 for line in heads for place in range(line.width)])
    return GridTable(
        device=device,
        lines=heads,
        rows=tuple(_row(case, name, draw.stacks(row)) for name, row in found.items()),
        precisions=tuple(Precision),
        words=words,
        apart="".join(sources) if len(sources) == 1 and sources <= _APART else "",
    )


def _columns(survey: Survey, case: Case) -> tuple[Environment, ...]:
    """Return the columns of a case: without the pairs and stacks that only others have.

    A case of a stack has no other column: all releases would stand before it with nothing to say.
    """
    known = survey.standings[case.name]
    if only := survey.only_in(case):
        own = {one.name for one in only}
        return tuple(
            one
            for one in survey.columns
            if one.name in own or (one.source is Source.INTERPRETER and one.name in known)
        )
    return tuple(one for one in survey.columns if one.source not in _APART or one.name in known)


def _words(marks: Iterable[SeenMark], device: str) -> dict[str, Any]:
    counts = Counter((seen.style, seen.text) for seen in marks)
    usual: dict[str, str] = {}
    for style, text in sorted(counts, key=lambda key: (-counts[key], key)):
        usual.setdefault(style, text)
    texts = dict.fromkeys(text for style, text in counts if usual[style] != text)
    return {"usual": usual, "texts": [*texts], "device": device}


class _GridPen:
    """Draws stacks; alike ones are one and the same value."""

    def __init__(self, words: Mapping[str, Any], opens: Sequence[bool]) -> None:
        self._usual = words["usual"]
        self._number = {text: str(number) for number, text in enumerate(words["texts"])}
        self._opens = opens
        self._drawn = Once(self._draw)

    def stacks(self, row: Iterable[Stack]) -> tuple[StackColumn, ...]:
        """Return a row as it is drawn."""
        return tuple(self._drawn[stack] for stack in zip(row, self._opens, strict=True))

    def _draw(self, stack: tuple[Stack, bool]) -> StackColumn:
        seen, opens = stack
        shown = tuple(ShownMark(style=one.style, glyph=one.mark.glyph) for one in seen)
        numbers = [
            "" if self._usual[one.style] == one.text else self._number[one.text] for one in seen
        ]
        agreed = len(set(numbers)) == 1
        return StackColumn(
            marks=shown[:1] if len(set(shown)) == 1 else shown,
            says=numbers[0] if agreed else ",".join(numbers),
            opens=opens,
        )


def _row(case: Case, workaround: str, stacks: tuple[StackColumn, ...]) -> GridRow:
    simulated = ("simulated",) if case.block.simulates else ()
    if workaround == PLAIN:
        how, label, href = "case", case.name, "#measured"
        detail, badges = case.block.title, simulated
    else:
        how, label, href = "workaround", workaround, f"#{in_address(f'with-{workaround}')}"
        way = case.block.workarounds[workaround]
        detail, badges = way.says, ("skips",) if way.skips else ()
    return GridRow(
        kind=how,
        label=visible(label),
        href=href,
        detail=visible(detail),
        badges=badges,
        extras=with_extras("", case.extras),
        stacks=stacks,
    )
