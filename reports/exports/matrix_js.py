"""The data of the first page's table as a classic script, each value once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Generic, TypeVar

from repromatrix.reports.marks import Mark, both_results, explained, is_here, mark_of, verdict_label
from repromatrix.reports.sections.grid import lines
from repromatrix.reports.text import kinds, link_to, number, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.judging.workarounds import refuted
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision, Verdict
from repromatrix.runner.model.packages import DECIDING, MOVED
from repromatrix.runner.text import join


def assignment(name: str, value: object) -> bytes:
    """Return a script that makes a value known by a name; its text can end no element."""
    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    # ASCII alone: neither half a character nor a separator of lines is left to disagree about.
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return f"var {name} = {written};\n".encode()


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


def data(survey: Survey) -> dict[str, Any]:
    """Return the data of the table on every device."""
    pen = _TableDataWriter(survey)
    ordered = sorted(survey.cases.values(), key=lambda case: (case.block.area, case.name))
    cases = [pen.case(case) for case in ordered]
    return {
        "precisions": [*Precision],
        "devices": survey.devices,
        "packages": [name for name in MOVED if any(one.version(name) for one in survey.columns)],
        "outcomes": [*Outcome],
        "verdicts": {verdict: verdict_label(verdict) for verdict in Verdict},
        "marks": {
            mark: {"glyph": mark.glyph, "words": mark.words, "verdict": mark.verdict}
            for mark in Mark
        },
        "columns": [*_heads(survey.columns)],
        "told": pen.told.values,
        "stacks": pen.stacks.values,
        "numbers": pen.numbers.values,
        "cases": cases,
    }


def _heads(columns: Sequence[Environment]) -> Iterator[dict[str, str]]:
    """Yield each column: its name, the line that it folds into, and the versions beside it."""
    heads = ((line.label, column) for line in lines(columns) for column in line.columns)
    for environment, (label, column) in zip(columns, heads, strict=True):
        held = [
            f"{name} {version}"
            for name in DECIDING
            if name != "safetensors" and (version := environment.version(name))
        ]
        yield {
            "name": visible(environment.name),
            "line": visible(label),
            "label": visible(column.label),
            "source": environment.source,
            "packages": visible(", ".join(held)),
        }


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
        self._numbers: dict[object, int] = {}
        self._unseen = self.told.number((Mark.NOT_RUN, Outcome.NOT_RUN, "", 0, 0, 0, ""))

    def case(self, case: Case) -> dict[str, Any]:
        """Return a case with its rows: for each device the plain one, then its workarounds.

        `shared` are the families that share the code and were not run.
        """
        block, bugs = case.block, self._survey.bugs(case.name)
        scopes = [bug.scope.value for bug in bugs]
        idle = refuted(self._survey.of_case(case.name))
        shared = [f"by shared code: {join(block.same_code)}"] if block.same_code else []
        return {
            "name": visible(case.name),
            "title": visible(block.title),
            "area": visible(block.area),
            "models": [*map(visible, block.models)],
            "shared": [*map(visible, block.same_code)],
            "packages": sorted({visible(one.name) for one in case.head.dependencies}),
            "trigger": block.triggers,
            "symptom": block.symptoms,
            "silent": any(bug.is_silent for bug in bugs),
            "scope": [*dict.fromkeys(bug.scope.name.lower() for bug in bugs)],
            "at-fault": [*dict.fromkeys(visible(bug.package) for bug in bugs)],
            "reported": block.found_by is None,
            "badges": [*map(visible, shared), *kinds(case), *dict.fromkeys(scopes)],
            "simulated": bool(block.simulates),
            "extras": with_extras("", case.extras),
            "ways": {
                visible(name): {
                    "says": visible(way.says),
                    "skips": way.skips,
                    "snippet": visible(block.snippets.get(name, "")),
                    "refuted": name in idle,
                }
                for name, way in block.workarounds.items()
            },
            "tracks": [
                self._track(case, workaround, device)
                for device in self._survey.devices_of(case.name)
                for workaround in case.branches
            ],
        }

    def _track(self, case: Case, workaround: str, device: Device) -> dict[str, Any]:
        """Return one row; `numbers` are by precision what was measured beside the outcome."""
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
        return {
            "workaround": visible(workaround),
            "device": device,
            "stacks": folded(stacks),
            "numbers": {
                precision.value: folded(self._measured(row.get(name)) for name in columns)
                for precision, row in zip(Precision, rows, strict=True)
                if any(one.seen.measured for one in row.values())
            },
        }

    def _told(self, row: Judged | None) -> int:
        if row is None:
            return self._unseen
        seen = row.seen
        # Neighbouring releases share what they did, and most rows read as one before them.
        alike = (
            *(row.verdict, row.stale, id(row.entry), id(row.published), seen.outcome),
            *(seen.exercised, seen.repeats, seen.unstable, seen.source, seen.reason),
            *(id(seen.failed), id(seen.sides)),
        )
        if alike not in self._numbers:
            self._numbers[alike] = self._number(row)
        return self._numbers[alike]

    def _number(self, row: Judged) -> int:
        seen, detail = row.seen, explained(row)
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
