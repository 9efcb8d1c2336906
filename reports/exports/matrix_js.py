"""The data of the first page's table as a classic script, each value once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain, groupby
from typing import Generic, TypeVar

from repromatrix.reports.marks import (
    Mark,
    both_results,
    explained,
    is_here,
    mark_of,
    verdict_label,
)
from repromatrix.reports.sections.grid import lines
from repromatrix.reports.text import kinds, link_to, number, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case, Symptom, Trigger
from repromatrix.runner.model.cell import Cell, Environment, Source
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision, Verdict
from repromatrix.runner.model.packages import DECIDING
from repromatrix.runner.text import join


def assignment(name: str, value: object) -> bytes:
    """Return a script that makes a value known by a name; its text can end no element.

    Raises TypeError for what is neither a dataclass nor known to JSON.
    """
    written = json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)
    # ASCII alone: neither half a character nor a separator of lines is left to disagree about.
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return f"var {name} = {written};\n".encode()


def _plain(value: object) -> dict[str, object]:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    message = f"a {type(value).__name__} is no value of a script"
    raise TypeError(message)


NO_CELL = -1
"""The number in a row where a case has no cell."""

_HELD = re.compile(r", has [^;]*")
_TEXT = 200

Told = tuple[str, str, str, int, int, int, str]
"""Mark, outcome, exercised, 1 if stale, 1 if measured here, repeats if unstable, and a text.

The text is the error or the reason; where two results deny each other, both of them.
"""

Folded = tuple[int, ...]
"""Pairs of a count and a number: neighbours that agree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """How a mark is drawn and read."""

    glyph: str
    words: str
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnHead:
    """One column: its name, the line that it folds into, and the versions that stand beside it."""

    name: str
    line: str
    label: str
    source: Source
    packages: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """One row: a case or one of its workarounds, on one device."""

    workaround: str
    device: Device
    stacks: Folded
    numbers: Mapping[str, Folded]
    """By precision, what was measured beside the outcome; empty where nothing was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A workaround as its case describes it."""

    says: str
    skips: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TableEntry:
    """A case with its rows."""

    name: str
    title: str
    area: str
    models: tuple[str, ...]
    shared: tuple[str, ...]
    """The families that share the code and were not run."""
    packages: tuple[str, ...]
    trigger: tuple[Trigger, ...]
    symptom: tuple[Symptom, ...]
    silent: bool
    reported: bool
    badges: tuple[str, ...]
    simulated: bool
    extras: str
    ways: Mapping[str, Way]
    tracks: tuple[Track, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The data of the table."""

    precisions: tuple[Precision, ...]
    devices: tuple[Device, ...]
    outcomes: tuple[Outcome, ...]
    verdicts: Mapping[Verdict, str]
    """How each verdict is named on the page."""
    marks: Mapping[Mark, Sign]
    areas: Mapping[str, str]
    columns: tuple[ColumnHead, ...]
    told: tuple[Told, ...]
    stacks: tuple[tuple[int, ...], ...]
    numbers: tuple[str, ...]
    cases: tuple[TableEntry, ...]


_Value = TypeVar("_Value")


class Numbered(Generic[_Value]):
    """Values in the order in which they were first met, each with its number."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: dict[_Value, int] = {}

    def number(self, value: _Value) -> int:
        """Return the number of a value, the next one where it is new."""
        return self._found.setdefault(value, len(self._found))

    @property
    def values(self) -> tuple[_Value, ...]:
        """The values, each at its number."""
        return tuple(self._found)


def data(survey: Survey) -> Data:
    """Return the data of the table on every device."""
    pen = _TableDataWriter(survey)
    rank = {area: place for place, area in enumerate(survey.areas)}
    ordered = sorted(
        survey.cases.values(),
        key=lambda case: (rank.get(case.block.area, len(rank)), case.block.area, case.name),
    )
    cases = tuple(_entry(case, pen.tracks(case)) for case in ordered)
    areas = dict.fromkeys(case.block.area for case in ordered)
    return Data(
        precisions=tuple(Precision),
        devices=survey.devices,
        outcomes=tuple(Outcome),
        verdicts={verdict: verdict_label(verdict) for verdict in Verdict},
        marks={
            mark: Sign(glyph=mark.glyph, words=mark.words, verdict=mark.verdict) for mark in Mark
        },
        areas={visible(area): visible(survey.areas.get(area, area)) for area in areas},
        columns=_heads(survey.columns),
        told=pen.told.values,
        stacks=pen.stacks.values,
        numbers=pen.numbers.values,
        cases=cases,
    )


def _heads(columns: Sequence[Environment]) -> tuple[ColumnHead, ...]:
    heads = ((line.label, column) for line in lines(columns) for column in line.columns)
    return tuple(
        ColumnHead(
            name=visible(environment.name),
            line=visible(label),
            label=visible(column.label),
            source=environment.source,
            packages=visible(
                ", ".join(
                    f"{name} {version}"
                    for name in DECIDING
                    if name != "safetensors" and (version := environment.version(name))
                )
            ),
        )
        for environment, (label, column) in zip(columns, heads, strict=True)
    )


def _entry(case: Case, tracks: tuple[Track, ...]) -> TableEntry:
    block = case.block
    shared = [f"by shared code: {join(block.same_code)}"] if block.same_code else []
    return TableEntry(
        name=visible(case.name),
        title=visible(block.title),
        area=visible(block.area),
        models=tuple(map(visible, block.models)),
        shared=tuple(map(visible, block.same_code)),
        packages=tuple(sorted({visible(one.name) for one in case.head.dependencies})),
        trigger=block.triggers,
        symptom=block.symptoms,
        silent=block.is_silent,
        reported=block.found_by is None,
        badges=(*map(visible, shared), *kinds(case)),
        simulated=bool(block.simulates),
        extras=with_extras("", case.extras),
        ways={
            visible(name): Way(says=visible(way.says), skips=way.skips)
            for name, way in block.workarounds.items()
        },
        tracks=tracks,
    )


def measured(survey: Survey, cells: Iterable[Cell]) -> list[tuple[str, str, str, int, int]]:
    """Return where this machine measured what is published: a line for each stack of the table.

    It is case, workaround, device and column, and a number with a bit for each precision.
    """
    places = {column.name: place for place, column in enumerate(survey.columns)}
    bits = {precision: 1 << place for place, precision in enumerate(Precision)}
    found: Counter[tuple[str, str, str, int]] = Counter()
    for case, workaround, environment, precision, device in cells:
        place = places[survey.column_of[environment]]
        found[visible(case), visible(workaround), device.value, place] += bits[precision]
    return [(*stack, number) for stack, number in sorted(found.items())]


def about(cases: Iterable[Case]) -> dict[str, str]:
    """Return what is said of each case: its description, and the reports and fixes that it cites.

    It is searched and not shown, so a page loads it only when somebody asks.
    """
    return {visible(case.name): _said(case) for case in cases}


def _said(case: Case) -> str:
    fixes = (one.fixed_by for one in case.block.fails if one.fixed_by)
    cited = dict.fromkeys([*case.block.reports, *fixes])
    return visible(" ".join([*case.docstring.split(), *(link_to(one).text for one in cited)]))


class _TableDataWriter:
    """Writes rows; what was said before is a number."""

    def __init__(self, survey: Survey) -> None:
        self.told: Numbered[Told] = Numbered()
        self.stacks: Numbered[tuple[int, ...]] = Numbered()
        self.numbers: Numbered[str] = Numbered()
        self._survey = survey
        self._unseen = self.told.number((Mark.NOT_RUN, Outcome.NOT_RUN, "", 0, 0, 0, ""))

    def tracks(self, case: Case) -> tuple[Track, ...]:
        """Return the rows of a case: for each device the plain one, then its workarounds."""
        return tuple(
            self._track(case, workaround, device)
            for device in self._survey.devices_of(case.name)
            for workaround in case.branches
        )

    def _track(self, case: Case, workaround: str, device: Device) -> Track:
        survey = self._survey
        columns = [survey.standing(case, column.name) for column in survey.columns]
        belonging = frozenset(survey.standings[case.name])
        known = survey.series(case.name)
        rows = [known.get((workaround, device, precision), {}) for precision in Precision]
        stacks = (
            self.stacks.number(tuple(self._told(row.get(name)) for row in rows))
            if name in belonging and survey.is_asked(case.name, name, device)
            else NO_CELL
            for name in columns
        )
        return Track(
            workaround=visible(workaround),
            device=device,
            stacks=folded(stacks),
            numbers={
                precision.value: folded(self._measured(row.get(name)) for name in columns)
                for precision, row in zip(Precision, rows, strict=True)
                if any(one.seen.measured for one in row.values())
            },
        )

    def _told(self, row: Judged | None) -> int:
        if row is None:
            return self._unseen
        seen = row.seen
        detail = explained(row)
        exercised = seen.exercised.value if seen.exercised is not Exercised.EMPTY else ""
        repeats = seen.repeats if seen.unstable and not seen.sides else 0
        said = mark_of(row).value, seen.outcome.value, exercised
        if seen.outcome is Outcome.NOT_APPLICABLE:
            # A column names its versions: told again in each, no two cells would be alike.
            detail = _HELD.sub("", detail)
        text = "; ".join(both_results(row)) or shortened(detail, _TEXT)
        if seen.sides:
            text = visible(f"disputed between machines: {dispute(seen)}")
        return self.told.number((*said, int(row.stale), int(is_here(row)), repeats, text))

    def _measured(self, row: Judged | None) -> int:
        if row is None or not row.seen.measured:
            return NO_CELL
        said = (f"{visible(name)} = {number(value)}" for name, value in row.seen.measured.items())
        return self.numbers.number(", ".join(said))


def folded(numbers: Iterable[int]) -> Folded:
    """Return numbers as pairs of a count and a number, neighbours that agree together."""
    runs = ((len([*run]), repeated) for repeated, run in groupby(numbers))
    return tuple(chain.from_iterable(runs))
