"""The grid: rows of cases and their workarounds, columns of releases, a mark per precision.

A table of tens of thousands of cells stays small where it says nothing twice: three marks that
agree are one, and what a mark says is the number of a text, given only where it is not the usual.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from reports.lines import Line, lines
from reports.phrases import in_address, visible
from runner.model.case import PLAIN
from runner.model.cell import Source
from runner.model.naming import with_extras
from runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reports.marks import Seen
    from reports.survey import Survey
    from runner.model.case import Case
    from runner.model.cell import Environment

_APART = frozenset({Source.PAIR, Source.STACK})


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A mark as it is drawn: its classes and its glyph."""

    style: str
    glyph: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The marks of one row in one column: one where they agree, none where there is no cell."""

    marks: tuple[Shown, ...] = ()
    says: str = ""
    """The number of the text of each mark, or one for all; nothing for what its class says."""
    opens: bool = False
    """Whether it is the first of its line, which gets a rule on its left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A case or one of its workarounds; `extras` is what its releases are called beside that."""

    kind: str
    label: str
    href: str
    detail: str
    badges: tuple[str, ...]
    extras: str
    stacks: tuple[Stack, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Area:
    """The rows of one area."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What marks say: the usual text of each class, every other text, and the device if named."""

    usual: Mapping[str, str]
    texts: tuple[str, ...]
    device: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The table of one device."""

    device: Device
    lines: tuple[Line, ...]
    areas: tuple[Area, ...]
    precisions: tuple[Precision, ...]
    words: Words
    width: int
    apart: str
    """What all columns are where no release by itself has what is needed: `stack` or `pair`."""


def grid(survey: Survey, device: Device, names: Sequence[str], page: str = "case/") -> Grid:
    """Return the grid of some cases on one device; `page` leads to the folder of their pages."""
    cases = [survey.cases[name] for name in names]
    columns = _columns(survey, cases)
    heads = lines(columns)
    found = {
        (case.name, workaround): tuple(_found(survey, columns, (case, workaround, device)))
        for case in cases
        for workaround in case.variants
    }
    words = _words(
        (seen for row in found.values() for stack in row for seen in stack), survey.on(device)
    )
    opens = [place == 0 for line in heads for place in range(line.width)]
    draw = _Pen(words, opens)
    rows = {key: draw.stacks(row) for key, row in found.items()}
    return Grid(
        device=device,
        lines=heads,
        areas=_areas(survey, cases, rows, page),
        precisions=tuple(Precision),
        words=words,
        width=len(columns) + 1,
        apart=_apart(columns),
    )


def _columns(survey: Survey, cases: Sequence[Case]) -> tuple[Environment, ...]:
    """Return the columns of some cases: without the pairs and stacks that only others have.

    Cases of a stack have no other column: all releases would stand before it with nothing to say.
    """
    known = {name for case in cases for name in survey.standings[case.name]}
    if all(map(survey.only_in, cases)):
        own = {one.name for case in cases for one in survey.only_in(case)}
        return tuple(
            one
            for one in survey.columns
            if one.name in own or (one.source is Source.INTERPRETER and one.name in known)
        )
    return tuple(one for one in survey.columns if one.source not in _APART or one.name in known)


def _apart(columns: Sequence[Environment]) -> str:
    sources = {one.source for one in columns} - {Source.INTERPRETER}
    return "".join(sources) if len(sources) == 1 and sources <= _APART else ""


def _found(
    survey: Survey, columns: Iterable[Environment], row: tuple[Case, str, Device]
) -> Iterator[tuple[Seen, ...]]:
    case, workaround, device = row
    for column in columns:
        name = survey.standing(case, column.name)
        yield survey.stacks.get((case.name, workaround, device, name), ())


def _words(marks: Iterable[Seen], device: str) -> Words:
    counts = Counter((seen.style, seen.text) for seen in marks)
    usual: dict[str, str] = {}
    for style, text in sorted(counts, key=lambda key: (-counts[key], key)):
        usual.setdefault(style, text)
    texts = dict.fromkeys(text for style, text in counts if usual[style] != text)
    return Words(usual=usual, texts=tuple(texts), device=device)


class _Pen:
    """Draws stacks; alike ones are one and the same value."""

    def __init__(self, words: Words, opens: Sequence[bool]) -> None:
        self._usual = words.usual
        self._number = {text: str(number) for number, text in enumerate(words.texts)}
        self._opens = opens
        self._drawn: dict[tuple[tuple[Seen, ...], bool], Stack] = {}

    def stacks(self, row: Iterable[tuple[Seen, ...]]) -> tuple[Stack, ...]:
        """Return a row as it is drawn."""
        return tuple(map(self._stack, row, self._opens))

    def _stack(self, seen: tuple[Seen, ...], opens: bool) -> Stack:  # noqa: FBT001
        drawn = self._drawn.get((seen, opens))
        if drawn is None:
            drawn = self._drawn[seen, opens] = self._draw(seen, opens=opens)
        return drawn

    def _draw(self, seen: tuple[Seen, ...], *, opens: bool) -> Stack:
        shown = tuple(Shown(style=one.style, glyph=one.mark.glyph) for one in seen)
        numbers = [self._says(one) for one in seen]
        agreed = len(set(numbers)) == 1
        return Stack(
            marks=shown[:1] if len(set(shown)) == 1 else shown,
            says=numbers[0] if agreed else ",".join(numbers),
            opens=opens,
        )

    def _says(self, seen: Seen) -> str:
        return "" if self._usual[seen.style] == seen.text else self._number[seen.text]


_Rows = dict[tuple[str, str], tuple[Stack, ...]]


def _areas(survey: Survey, cases: Iterable[Case], rows: _Rows, page: str) -> tuple[Area, ...]:
    rank = {key: position for position, key in enumerate(survey.areas)}
    ordered = sorted(
        cases,
        key=lambda case: (rank.get(case.block.area, len(rank)), case.block.area, case.name),
    )
    return tuple(
        Area(
            title=visible(survey.areas.get(area, area)),
            rows=tuple(row for case in members for row in _rows(case, rows, page)),
        )
        for area, members in groupby(ordered, key=lambda case: case.block.area)
    )


def _rows(case: Case, rows: _Rows, page: str) -> Iterator[Row]:
    href = f"{page}{in_address(case.name)}.html" if page else ""
    for workaround in case.variants:
        stacks = rows[case.name, workaround]
        if workaround == PLAIN:
            yield _case_row(case, href, stacks)
        else:
            yield _workaround_row(case, workaround, href, stacks)


def _case_row(case: Case, href: str, stacks: tuple[Stack, ...]) -> Row:
    simulated = ("simulated",) if case.block.simulates else ()
    kind = () if case.block.kind.value == "bug" else (case.block.kind.value,)
    return Row(
        kind="case",
        label=visible(case.name),
        href=href or "#measured",
        detail=visible(case.block.title),
        badges=kind + simulated,
        extras=with_extras("", case.extras),
        stacks=stacks,
    )


def _workaround_row(case: Case, name: str, href: str, stacks: tuple[Stack, ...]) -> Row:
    workaround = case.block.workarounds[name]
    return Row(
        kind="workaround",
        label=visible(name),
        href=f"{href}#{in_address(f'with-{name}')}",
        detail=visible(workaround.says),
        badges=("skips",) if workaround.skips else (),
        extras=with_extras("", case.extras),
        stacks=stacks,
    )
