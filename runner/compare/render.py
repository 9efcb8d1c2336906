"""Render a diff, of two environments or of two sets of evidence, as text, Markdown or JSON."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.compare.diff import (
    CellChange,
    CellDifference,
    DiffGround,
    answer,
    is_described,
)
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.markdown import code, plain
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Exercised, Reading
from repromatrix.runner.text import plural, printable, shorten

_WIDE = 400
_FEW = 4
"""How many neighbouring environments are each named."""
WORDS = {change: str(change) for change in CellChange} | {CellChange.BROKE: "broken"}
HEADINGS = {
    CellChange.BROKE: "Broken",
    CellChange.FIXED: "Fixed",
    CellChange.CHANGED: "Changed",
    CellChange.NEW: "New: on the second side only",
    CellChange.GONE: "Gone: on the first side only",
    CellChange.UNKNOWN: "Unknown: a side has no answer",
}
MOVED = "Measured numbers that changed where both sides pass"
GROUNDS = {
    DiffGround.CASE: "the case changed",
    DiffGround.PINS: "the pins changed",
    DiffGround.PROTOCOL: "the way of running changed",
    DiffGround.TORCH: "another torch build",
    DiffGround.HARDWARE: "other hardware",
}
_OF_EVIDENCE = frozenset({"environment", "comparable", "grounds"})
"""What the JSON says of a cell only where two sets of evidence are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffReport:
    """A comparison with all that its page says."""

    before: str
    """The first side, in words."""
    after: str
    differences: tuple[CellDifference, ...]
    cases: Mapping[str, Case]
    sides: tuple[str, str] | None = None
    """What is typed for two environments; None where two sets of evidence are compared."""
    run: str = ""
    """The run that measured what was not known of two environments."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is typed for a case that is a file of the user's."""
    environments: Sequence[str] = ()
    """Those of this checkout in its order: evidence of another cannot be measured again here."""
    of_one_set: bool = False
    """Whether both sides are publications of one published set."""

    @property
    def comparable(self) -> tuple[CellDifference, ...]:
        """The cells that are the same on both sides, and those of one side."""
        return tuple(difference for difference in self.differences if difference.is_comparable)

    @property
    def not_comparable(self) -> tuple[CellDifference, ...]:
        """The cells that share no more than their names."""
        return tuple(difference for difference in self.differences if not difference.is_comparable)

    @property
    def exit_code(self) -> ExitCode:
        """Whether anything differs; undecided where nothing comparable has an answer."""
        if any(difference.change.differs for difference in self.differences):
            return ExitCode.UNEXPECTED
        known = any(difference.change is not CellChange.UNKNOWN for difference in self.comparable)
        return ExitCode.AS_EXPECTED if known else ExitCode.UNDECIDED

    def again(self, cell: Cell) -> str:
        """Return the command that measures a cell again; nothing where it is not known here."""
        if self.sides:
            case = self.files.get(cell.case, cell.case)
            command = ["diff", "--", *self.sides, "--case", case]
        elif self._is_known(cell):
            command = ["matrix", "--", "--case", cell.case, "--release", cell.environment]
        else:
            return ""
        variant = ["--precision", cell.precision, "--workaround", cell.workaround or "none"]
        device = [] if cell.device == "cpu" else ["--device", cell.device]
        return shlex.join(["nox", "-s", *command, *variant, *device, "--rerun"])

    def _is_known(self, cell: Cell) -> bool:
        case = self.cases.get(cell.case)
        known = case is not None and cell.workaround in case.variants
        return known and cell.environment in self.environments

    def title(self, name: str) -> str:
        """Return what a case is about, or that this checkout does not have it."""
        case = self.cases.get(name)
        return case.block.title if case else "a case that this checkout does not have"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellGroup:
    """The cells of a case that share what happened on both sides, and on what grounds."""

    cells: tuple[Cell, ...]
    before: str
    after: str
    grounds: str

    def names(self, order: Sequence[str]) -> str:
        """Name the cells: `plain bf16, fp16 on 4.50.0 4.50.1; cache-off bf16 on 4.50.0`.

        A stretch in which no environment of the order is missing is named by its ends.
        """
        environments: dict[tuple[str, str, str], list[str]] = {}
        for cell in self.cells:
            device = "" if cell.device == "cpu" else f" {cell.device}"
            variant = (cell.workaround or "plain", cell.precision, device)
            environments.setdefault(variant, []).append(cell.environment)
        precisions: dict[tuple[str, str], list[str]] = {}
        for (workaround, precision, device), names in environments.items():
            where = f" on {' '.join(_folded(names, order))}" if any(names) else ""
            precisions.setdefault((workaround, f"{device}{where}"), []).append(precision)
        named = (
            f"{workaround} {', '.join(those)}{where}"
            for (workaround, where), those in precisions.items()
        )
        return printable("; ".join(named))


def _folded(names: Iterable[str], order: Sequence[str]) -> Iterator[str]:
    place = {name: number for number, name in enumerate(order)}
    stretches: list[list[str]] = []
    for name in names:
        last = stretches[-1][-1] if stretches else ""
        if last in place and place.get(name) == place[last] + 1:
            stretches[-1].append(name)
        else:
            stretches.append([name])
    for stretch in stretches:
        if len(stretch) > _FEW:
            yield f"{stretch[0]} … {stretch[-1]} (all {len(stretch)})"
        else:
            yield from stretch


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSection:
    """Cells of which the same became, by case."""

    heading: str
    groups: Mapping[str, tuple[CellGroup, ...]]

    @property
    def has_grounds(self) -> bool:
        """Whether anything else than the answer is not the same in some cell."""
        return any(group.grounds for groups in self.groups.values() for group in groups)


def render(report: DiffReport, form: str) -> str:
    """Return the page in one of the formats of `--format`."""
    match form:
        case "markdown":
            return markdown(report)
        case "json":
            return as_json(report)
        case _:
            return text(report)


# What every page says


def headline(report: DiffReport) -> tuple[str, ...]:
    """Return the first lines: what was compared, what came of it, on what, and from where."""
    how = "" if report.sides else "; nothing was run"
    before = _measured(report, [difference.before for difference in report.differences])
    after = _measured(report, [difference.after for difference in report.differences])
    lines = (
        f"{report.before} against {report.after}{how}.",
        f"Of {_counted(report.comparable)}: {_tallied(report.comparable)}.",
        *_of_not_comparable(report),
        *_of_machines(report),
        *_of_one_set(report),
        f"First side: {before}.",
        f"Second side: {after}.",
    )
    return tuple(map(printable, lines))


def _tallied(differences: Iterable[CellDifference]) -> str:
    counts = Counter(difference.change for difference in differences)
    return ", ".join(f"{counts[change]} {WORDS[change]}" for change in CellChange)


def _counted(differences: Sequence[CellDifference]) -> str:
    cases = plural(len({difference.cell.case for difference in differences}), "case")
    environments = {difference.cell.environment for difference in differences} - {""}
    where = f" in {plural(len(environments), 'environment')}" if environments else ""
    return f"{plural(len(differences), 'cell')} of {cases}{where}"


def _of_not_comparable(report: DiffReport) -> Iterator[str]:
    cells = report.not_comparable
    if cells:
        why = Counter(ground for difference in cells for ground in difference.grounds)
        named = ", ".join(
            f"{GROUNDS[ground]} in {why[ground]}"
            for ground in DiffGround
            if ground.makes_another_cell and why[ground]
        )
        yield f"Not comparable: {_counted(cells)} ({named}): {_tallied(cells)}."


def _of_machines(report: DiffReport) -> Iterator[str]:
    machine = {DiffGround.TORCH, DiffGround.HARDWARE}
    number = sum(
        difference.change.differs and bool(machine & {*difference.grounds})
        for difference in report.differences
    )
    if number:
        differences = plural(number, "difference")
        yield f"Other hardware or another torch build may be the cause of {differences}."


def _of_one_set(report: DiffReport) -> Iterator[str]:
    if report.of_one_set:
        yield (
            "Two publications of one set share no cell: a published cell belongs to the"
            " publication that measured it last. To compare with an older set, take its folder"
            " out of the history."
        )


def _measured(report: DiffReport, rows: Iterable[Observation | None]) -> str:
    held = [row for row in rows if row and answer(row) is not Reading.ABSENT]
    ran = [row for row in held if row.outcome.was_run]
    devices = _listed({row.cell.device.upper() for row in ran})
    hardware = _listed({row.provenance.hardware for row in ran})
    torch = _listed({row.provenance.torch_build for row in ran})
    python = _listed({row.provenance.python for row in ran})
    where = f"measured on {devices} ({hardware}), torch {torch}, Python {python}"
    known = f"; {_known(report, ran)}" if report.sides else ""
    return f"{plural(len(held), 'cell')}, {where if ran else 'none measured'}{known}"


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names - {""})) or "nothing"


def _known(report: DiffReport, ran: Sequence[Observation]) -> str:
    known = Counter(row.source for row in ran if row.provenance.run != report.run)
    named = ", ".join(
        f"{number} {source if source in UNPUBLISHED else f'published as {source}'}"
        for source, number in sorted(known.items())
    )
    fresh = len(ran) - known.total()
    return f"{known.total()} known{f' ({named})' if named else ''}, {fresh} run"


def sections(report: DiffReport) -> Iterator[DiffSection]:
    """Yield what differs, first where both sides ran the same, then where they did not.

    Cells that neither side ran are counted, and not listed.
    """
    for prefix, cells in (("", report.comparable), ("Not comparable: ", report.not_comparable)):
        for change, heading in HEADINGS.items():
            listed = [
                difference
                for difference in cells
                if difference.change is change and _was_run(difference)
            ]
            if listed:
                named = f"{prefix}{WORDS[change]}" if prefix else heading
                yield DiffSection(heading=named, groups=_grouped(report, listed))


def _was_run(difference: CellDifference) -> bool:
    rows = (difference.before, difference.after)
    unknown = {*map(answer, rows)} == {Reading.UNKNOWN}
    return not unknown or any(row and row.outcome.was_run for row in rows)


def _grouped(
    report: DiffReport, differences: Iterable[CellDifference]
) -> dict[str, tuple[CellGroup, ...]]:
    by_case: dict[str, dict[tuple[str, str, str], list[Cell]]] = {}
    for difference in differences:
        case = report.cases.get(difference.cell.case)
        grounds = ", ".join(GROUNDS[ground] for ground in difference.grounds)
        said = (happened(case, difference.before), happened(case, difference.after), grounds)
        by_case.setdefault(difference.cell.case, {}).setdefault(said, []).append(difference.cell)
    return {
        name: tuple(
            CellGroup(cells=tuple(cells), before=said[0], after=said[1], grounds=said[2])
            for said, cells in groups.items()
        )
        for name, groups in by_case.items()
    }


def happened(case: Case | None, seen: Observation | None) -> str:
    """Return what a side says of a cell, with its error, and whether it is the case's bug."""
    if seen is None:
        return "not on this side"
    detail = seen.failed.headline if seen.failed else seen.reason
    said = shorten(f"{seen.outcome}: {detail}" if detail else str(seen.outcome), _WIDE)
    if seen.unstable:
        return f"unstable: {said}"
    if seen.exercised is Exercised.NO:
        return f"{said} (never computed in its precision)"
    if answer(seen) is Reading.BAD and case is not None and case.block.fails:
        return f"{said} ({'as' if is_described(case, seen) else 'not as'} the case describes)"
    return said


def moved(report: DiffReport) -> Iterator[tuple[str, str, str, str]]:
    """Yield the measured numbers that changed: cell, name, and both numbers."""
    for difference in report.comparable:
        cell = difference.cell
        variant = f"[{cell.workaround}]" if cell.workaround else ""
        where = f" on {cell.environment}" if cell.environment else ""
        named = shorten(f"{cell.case}{variant} {cell.precision}{where}", _WIDE)
        for number in difference.moved:
            name = shorten(number.name, _WIDE)
            yield named, name, f"{number.before:.3g}", f"{number.after:.3g}"


# Text


def text(report: DiffReport) -> str:
    """Return the page for a terminal."""
    lines = [*headline(report)]
    for section in sections(report):
        lines.extend(["", section.heading])
        for name, groups in section.groups.items():
            lines.append("  " + shorten(f"{name}: {report.title(name)}", _WIDE))
            for group in groups:
                lines.extend(_text_of(report, group))
    numbers = list(moved(report))
    lines.extend(["", MOVED] if numbers else [])
    lines.extend(
        f"  {cell}: {name} {before} before, {after} after" for cell, name, before, after in numbers
    )
    # Names and messages may be somebody else's, and a terminal obeys control characters.
    return "\n".join([*map(printable, lines), ""])


def _text_of(report: DiffReport, group: CellGroup) -> Iterator[str]:
    yield f"    {group.names(report.environments)}"
    yield f"      before  {group.before}"
    yield f"      after   {group.after}"
    if group.grounds:
        yield f"      note    {group.grounds}"
    again = report.again(group.cells[0])
    if again:
        yield f"      again   {again}"


# Markdown


def markdown(report: DiffReport) -> str:
    """Return the page as Markdown."""
    first, *rest = map(plain, headline(report))
    lines = [f"**{first}**", "", *(f"{line}  " for line in rest)]
    for section in sections(report):
        lines.extend(_section(report, section))
    numbers = [[*map(code, row)] for row in moved(report)]
    if numbers:
        lines.extend(["", f"### {MOVED}", ""])
        lines.extend(_table(["cell", "number", "before", "after"], numbers))
    return "\n".join([*lines, ""])


def _section(report: DiffReport, section: DiffSection) -> Iterator[str]:
    noted = section.has_grounds
    rows = []
    for name, groups in section.groups.items():
        title = f"{code(printable(name))}: {plain(report.title(name))}"
        for group in groups:
            said = map(code, (group.names(report.environments), group.before, group.after))
            rows.append([title, *said, *([plain(group.grounds)] if noted else [])])
    yield from ("", f"### {section.heading}", "")
    yield from _table(["case", "cells", "before", "after", *(["note"] if noted else [])], rows)
    firsts = [group.cells[0] for groups in section.groups.values() for group in groups]
    commands = [command for cell in firsts if (command := report.again(cell))]
    if commands:
        yield from ("", "```sh", *commands, "```")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(row)} |"


# JSON: keys and values are a contract, the headline is not


def as_json(report: DiffReport) -> str:
    """Return the comparison for programs.

    Of two environments every cell is listed, of two sets of evidence those that are not the same.
    """
    told: dict[str, Any] = {
        "before": report.before,
        "after": report.after,
        "headline": list(headline(report)),
        "counts": _counts(report.comparable),
    }
    listed: Iterable[CellDifference] = report.differences
    if report.sides is None:
        told["not-the-same-cells"] = _counts(report.not_comparable)
        listed = (difference for difference in report.differences if _is_listed(difference))
    return (
        json.dumps(
            {**told, "cells": [_cell(report, difference) for difference in listed]}, indent=1
        )
        + "\n"
    )


def _is_listed(difference: CellDifference) -> bool:
    return (
        difference.change is not CellChange.SAME
        or not difference.is_comparable
        or bool(difference.moved)
    )


def _counts(differences: Iterable[CellDifference]) -> dict[str, int]:
    counts = Counter(difference.change for difference in differences)
    return {str(change): counts[change] for change in CellChange}


def _cell(report: DiffReport, difference: CellDifference) -> dict[str, Any]:
    told = {
        "case": difference.cell.case,
        "workaround": difference.cell.workaround,
        "environment": difference.cell.environment,
        "precision": str(difference.cell.precision),
        "device": str(difference.cell.device),
        "change": str(difference.change),
        "comparable": difference.is_comparable,
        "grounds": [str(ground) for ground in difference.grounds],
        "before": _side(difference.before),
        "after": _side(difference.after),
        "moved": {
            each.name: [_number(each.before), _number(each.after)] for each in difference.moved
        },
        "again": report.again(difference.cell),
    }
    return {key: told[key] for key in told if report.sides is None or key not in _OF_EVIDENCE}


def _number(value: float) -> float | str:
    """Return a number as JSON has it; it has neither infinity nor what is no number."""
    return value if abs(value) < float("inf") else str(value)


def _side(seen: Observation | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    return {
        "environment": seen.cell.environment,
        "outcome": str(seen.outcome),
        "error": seen.failed.headline if seen.failed else "",
        "reason": seen.reason,
        "unstable": seen.unstable,
        "source": seen.source,
        "packages": dict(seen.provenance.packages),
    }
