"""The grid: rows of cases and their workarounds, columns of releases, a mark per precision."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from reports.marks import Mark, meaning
from reports.phrases import in_address, shortened, visible
from runner.model.case import PLAIN
from runner.model.cell import Cell, Source
from runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.survey import Survey
    from runner.model.case import Case
    from runner.model.cell import Environment


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

    @property
    def width(self) -> int:
        """How many columns stand below the head."""
        return len(self.columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A mark as it is drawn: its classes and its glyph."""

    style: str
    glyph: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The marks of one row on one release, a sentence for each; empty where there is no cell."""

    href: str = ""
    sentences: tuple[str, ...] = ()
    marks: tuple[Shown, ...] = ()
    opens: bool = False
    """Whether it is the first of its line, which gets a rule on its left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A case or one of its workarounds."""

    kind: str
    label: str
    href: str
    detail: str
    badges: tuple[str, ...]
    stacks: tuple[Stack, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Area:
    """The rows of one area."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The table of one device."""

    device: Device
    lines: tuple[Line, ...]
    areas: tuple[Area, ...]
    precisions: tuple[Precision, ...]
    width: int


def lines(environments: Sequence[Environment]) -> tuple[Line, ...]:
    """Group the columns by minor line: 4.50 holds 0, 1, 2 and 3."""
    grouped = groupby(environments, key=_line)
    return tuple(
        Line(label=label, columns=tuple(_column(item, label) for item in items))
        for label, items in grouped
    )


def _line(environment: Environment) -> str:
    if environment.source is not Source.RELEASE:
        return environment.name
    try:
        version = Version(environment.name)
    except InvalidVersion:
        return environment.name
    return f"{version.major}.{version.minor}"


def _column(environment: Environment, line: str) -> Column:
    rest = environment.name.removeprefix(line).removeprefix(".")
    return Column(name=environment.name, label=rest)


def grid(survey: Survey, device: Device, names: Sequence[str], page: str = "case/") -> Grid:
    """Return the grid of some cases on one device; `page` leads to the folder of their pages."""
    draw = _Pen(survey=survey, device=device, page=page)
    return Grid(
        device=device,
        lines=lines(survey.columns),
        areas=_areas(survey, names, draw),
        precisions=tuple(Precision),
        width=len(survey.columns) + 1,
    )


def _areas(survey: Survey, names: Sequence[str], draw: _Pen) -> tuple[Area, ...]:
    rank = {key: position for position, key in enumerate(survey.areas)}
    cases = sorted(
        (survey.cases[name] for name in names),
        key=lambda case: (rank.get(case.block.area, len(rank)), case.block.area, case.name),
    )
    return tuple(
        Area(
            title=visible(survey.areas.get(area, area)),
            rows=tuple(row for case in members for row in draw.rows(case)),
        )
        for area, members in groupby(cases, key=lambda case: case.block.area)
    )


@dataclass(frozen=True, kw_only=True)
class _Pen:
    survey: Survey
    device: Device
    page: str

    def rows(self, case: Case) -> list[Row]:
        return [self._row(case, workaround) for workaround in case.variants]

    def _row(self, case: Case, workaround: str) -> Row:
        href = self._page(case.name)
        stacks = tuple(
            self._stack(case, workaround, column.name, opens=position == 0)
            for line in lines(self.survey.columns)
            for position, column in enumerate(line.columns)
        )
        if workaround == PLAIN:
            return _case_row(case, href, stacks)
        return _workaround_row(case, workaround, href, stacks)

    def _page(self, case: str) -> str:
        return f"{self.page}{in_address(case)}.html" if self.page else ""

    def _stack(self, case: Case, workaround: str, column: str, *, opens: bool) -> Stack:
        name = self.survey.standing(case, column)
        found = self.survey.pivot.get((case.name, workaround, self.device.value, name))
        if found is None:
            return Stack(opens=opens)
        cells = [Cell(case.name, workaround, name, item, self.device) for item in Precision]
        return Stack(
            href=f"{self._page(case.name)}#{in_address(name)}",
            sentences=tuple(sentence(self.survey, cell) for cell in cells),
            marks=tuple(show(self.survey, cell, Mark(found[cell.precision])) for cell in cells),
            opens=opens,
        )


def _case_row(case: Case, href: str, stacks: tuple[Stack, ...]) -> Row:
    simulated = ("simulated",) if case.block.simulates else ()
    kind = () if case.block.kind.value == "bug" else (case.block.kind.value,)
    return Row(
        kind="case",
        label=visible(case.name),
        href=href or "#measured",
        detail=visible(case.block.title),
        badges=kind + simulated,
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
        stacks=stacks,
    )


def show(survey: Survey, cell: Cell, mark: Mark) -> Shown:
    """Return a mark as it is drawn, with the flags of its cell."""
    row = survey.rows.get(cell)
    stale = " stale" if row is not None and row.stale else ""
    return Shown(style=f"{mark}{stale}", glyph=mark.glyph)


def sentence(survey: Survey, cell: Cell) -> str:
    """Say in one sentence what a cell shows: `bf16 on 4.50.0: passes as expected`."""
    said = meaning(survey.rows.get(cell), cell.precision)
    where = f"{cell.precision} on {cell.environment}{survey.on(cell.device)}"
    return shortened(f"{where}: {said}", 220)
