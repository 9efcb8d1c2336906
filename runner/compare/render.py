"""A diff of two environments or of two sets of evidence in words, and for programs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.compare.diff import (
    NOWHERE,
    CellChange,
    CellDifference,
    DiffGround,
    answer,
    is_described,
)
from repromatrix.runner.document import Code, Document, Fact, Listing, Paragraph
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Exercised, Reading
from repromatrix.runner.planning.selection import selecting
from repromatrix.runner.text import plural, shorten

_WIDE = 400
_FEW = 4
"""How many neighbouring environments are each named."""
WORDS = {change: str(change) for change in CellChange} | {
    CellChange.BROKE: "broken",
    CellChange.UNMEASURED: "not measured",
}
HEADINGS = {
    CellChange.BROKE: "Broken",
    CellChange.FIXED: "Fixed",
    CellChange.CHANGED: "Changed",
    CellChange.NEW: "New: on the second side only",
    CellChange.GONE: "Gone: on the first side only",
    CellChange.UNKNOWN: "Unknown: a side has no result",
    CellChange.UNMEASURED: "Not measured on one side",
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
"""Keys of a cell in the JSON that exist only where two sets of evidence are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffReport:
    """A comparison, and what is needed to render it."""

    before: str
    """The first side, in words."""
    after: str
    differences: tuple[CellDifference, ...]
    cases: Mapping[str, Case]
    sides: tuple[str, str] | None = None
    """What is typed for two environments; None where two sets of evidence are compared."""
    run: str = ""
    """The run that measured the cells of two environments that had no result."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is typed for a case that is the user's own file."""
    environments: Sequence[str] = ()
    """Those of this checkout, in order: cells of others cannot be measured again here."""
    of_one_set: bool = False
    """Whether both sides are snapshots of one published set."""

    @property
    def comparable(self) -> tuple[CellDifference, ...]:
        """The cells that are the same on both sides, and those of one side."""
        return tuple(difference for difference in self.differences if difference.is_comparable)

    @property
    def not_comparable(self) -> tuple[CellDifference, ...]:
        """The cells that have only their name in common."""
        return tuple(difference for difference in self.differences if not difference.is_comparable)

    @property
    def exit_code(self) -> ExitCode:
        """Whether anything differs; undecided where nothing comparable has a result."""
        if any(difference.change.differs for difference in self.differences):
            return ExitCode.UNEXPECTED
        known = any(difference.change is not CellChange.UNKNOWN for difference in self.comparable)
        return ExitCode.AS_EXPECTED if known else ExitCode.UNDECIDED

    def again(self, cell: Cell) -> str:
        """Return the command that measures a cell again; empty if this checkout lacks it."""
        if self.sides:
            typed = self.files.get(cell.case, cell.case)
            command = ["diff", "--", *self.sides, "--case", typed]
        else:
            case = self.cases.get(cell.case)
            is_here = case is not None and cell.workaround in case.branches
            if not is_here or cell.environment not in self.environments:
                return ""
            command = ["matrix", "--", "--case", cell.case, "--release", cell.environment]
        return shlex.join(["nox", "-s", *command, *selecting(cell), "--rerun"])

    def title(self, name: str) -> str:
        """Return the title of a case, or that this checkout does not have it."""
        case = self.cases.get(name)
        return case.block.title if case else "a case that this checkout does not have"


def _named(cells: Sequence[Cell], order: Sequence[str]) -> str:
    """Return cells in words: `plain bf16, fp16 on 4.50.0 4.50.1; cache-off bf16 on 4.50.0`.

    Neighbouring environments of the order are shortened to the first and the last.
    """
    environments: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        device = "" if cell.device == "cpu" else f" {cell.device}"
        variant = (cell.workaround or "plain", cell.precision, device)
        environments.setdefault(variant, []).append(cell.environment)
    precisions: dict[tuple[str, str], list[str]] = {}
    for (workaround, precision, device), names in environments.items():
        where = f" on {' '.join(_folded(names, order))}" if any(names) else ""
        precisions.setdefault((workaround, f"{device}{where}"), []).append(precision)
    return "; ".join(
        f"{workaround} {', '.join(those)}{where}"
        for (workaround, where), those in precisions.items()
    )


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


def document(report: DiffReport) -> Document:
    """Return the comparison as a document."""
    first, *rest = headline(report)
    return Document(
        headline=first,
        parts=[
            Paragraph(rest),
            *_sections(report),
            Listing(MOVED, [*_moved(report)]),
        ],
        data=_data(report, (first, *rest)),
    )


def headline(report: DiffReport) -> list[str]:
    """Return the first lines: what was compared, with what result, measured on what."""
    how = "" if report.sides else "; nothing was run"
    return [
        f"{report.before} against {report.after}{how}.",
        f"Of {_counted(report.comparable)}: {_tallied(report, report.comparable)}.",
        *_warnings(report),
        f"First side: {_measured(report, (each.before for each in report.differences))}.",
        f"Second side: {_measured(report, (each.after for each in report.differences))}.",
    ]


def _tallied(report: DiffReport, differences: Iterable[CellDifference]) -> str:
    counts = _counts(report, differences).items()
    return ", ".join(f"{number} {WORDS[CellChange(change)]}" for change, number in counts)


def _counted(differences: Sequence[CellDifference]) -> str:
    cases = plural(len({difference.cell.case for difference in differences}), "case")
    environments = {difference.cell.environment for difference in differences} - {""}
    where = f" in {plural(len(environments), 'environment')}" if environments else ""
    return f"{plural(len(differences), 'cell')} of {cases}{where}"


def _warnings(report: DiffReport) -> Iterator[str]:
    cells = report.not_comparable
    if cells:
        why = Counter(ground for difference in cells for ground in difference.grounds)
        named = ", ".join(
            f"{GROUNDS[ground]} in {why[ground]}"
            for ground in DiffGround
            if ground.makes_another_cell and why[ground]
        )
        yield f"Not comparable: {_counted(cells)} ({named}): {_tallied(report, cells)}."
    machine = {DiffGround.TORCH, DiffGround.HARDWARE}
    number = sum(
        difference.change.differs and bool(machine & {*difference.grounds})
        for difference in report.differences
    )
    if number:
        differences = plural(number, "difference")
        yield f"Other hardware or another torch build may be the cause of {differences}."
    if report.of_one_set:
        yield (
            "Two snapshots of one set share no cell: a published cell belongs to the snapshot that"
            " measured it last. To compare with an older set, take its folder out of the history."
        )


def _measured(report: DiffReport, rows: Iterable[Observation | None]) -> str:
    applicable = [row for row in rows if row and answer(row) not in NOWHERE]
    ran = [row for row in applicable if row.outcome.was_run]
    devices = _names(row.cell.device.upper() for row in ran)
    hardware = _names(row.provenance.hardware for row in ran)
    torch = _names(row.provenance.torch_build for row in ran)
    python = _names(row.provenance.python for row in ran)
    where = f"measured on {devices} ({hardware}), torch {torch}, Python {python}"
    known = f"; {_known(report, ran)}" if report.sides else ""
    return f"{plural(len(applicable), 'cell')}, {where if ran else 'none measured'}{known}"


def _names(names: Iterable[str]) -> str:
    return " and ".join(sorted({*names} - {""})) or "nothing"


def _known(report: DiffReport, ran: Sequence[Observation]) -> str:
    known = Counter(row.source for row in ran if row.provenance.run != report.run)
    named = ", ".join(_sources(known))
    fresh = len(ran) - known.total()
    return f"{known.total()} known{f' ({named})' if named else ''}, {fresh} run"


def _sources(known: Counter[str]) -> Iterator[str]:
    """Yield where known cells come from: more than two publications are one range of days."""
    published = sorted(known.keys() - UNPUBLISHED)
    if len(published) > 2:  # noqa: PLR2004
        number = sum(known[source] for source in published)
        yield f"{number} published from {published[0]} to {published[-1]}"
        known = Counter({source: known[source] for source in known.keys() & UNPUBLISHED})
    for source, number in sorted(known.items()):
        yield f"{number} {source if source in UNPUBLISHED else f'published as {source}'}"


def _sections(report: DiffReport) -> Iterator[Listing]:
    """Yield what differs: first where both sides ran the same code, then where they did not.

    Cells that neither side ran are counted, and not listed.
    """
    for prefix, cells in (("", report.comparable), ("Not comparable: ", report.not_comparable)):
        for change, heading in HEADINGS.items():
            changed = [each for each in cells if each.change is change and _was_run(each)]
            if changed:
                named = f"{prefix}{WORDS[change]}" if prefix else heading
                yield Listing(named, [*_by_case(report, changed)])


def _by_case(report: DiffReport, changed: Iterable[CellDifference]) -> Iterator[Listing]:
    """Yield what changed of each case: cells with the same results and grounds stand together."""
    by_case: dict[str, dict[tuple[str, str, str], list[Cell]]] = {}
    for difference in changed:
        case = report.cases.get(difference.cell.case)
        grounds = ", ".join(GROUNDS[ground] for ground in difference.grounds)
        key = (happened(case, difference.before), happened(case, difference.after), grounds)
        by_case.setdefault(difference.cell.case, {}).setdefault(key, []).append(difference.cell)
    for name, groups in by_case.items():
        listed = [
            Listing(
                Code(_named(cells, report.environments)),
                _facts(before=before, after=after, note=note, again=report.again(cells[0])),
            )
            for (before, after, note), cells in groups.items()
        ]
        yield Listing((Code(shorten(name, _WIDE)), f": {report.title(name)}"), listed)


def _facts(**facts: str) -> list[Fact]:
    return [
        Fact(name, fact if name == "note" else Code(fact)) for name, fact in facts.items() if fact
    ]


def _was_run(difference: CellDifference) -> bool:
    rows = (difference.before, difference.after)
    unknown = {*map(answer, rows)} == {Reading.UNKNOWN}
    return not unknown or any(row and row.outcome.was_run for row in rows)


def happened(case: Case | None, row: Observation | None) -> str:
    """Return what happened in a cell on one side, and whether it is the case's bug."""
    if row is None:
        return "not on this side"
    text = shorten(row.described, _WIDE)
    if row.unstable:
        return f"unstable: {text}"
    if row.exercised is Exercised.NO:
        return f"{text} (never computed in its precision)"
    if answer(row) is Reading.BAD and case is not None and case.block.fails:
        return f"{text} ({'as' if is_described(case, row) else 'not as'} the case describes)"
    return text


def _moved(report: DiffReport) -> Iterator[str]:
    for difference in report.comparable:
        cell = difference.cell
        variant = f"[{cell.workaround}]" if cell.workaround else ""
        where = f" on {cell.environment}" if cell.environment else ""
        named = shorten(f"{cell.case}{variant} {cell.precision}{where}", _WIDE)
        for number in difference.moved:
            name = shorten(number.name, _WIDE)
            yield f"{named}: {name} {number.before:.3g} before, {number.after:.3g} after"


# JSON: keys and values are a contract, the headline is not


def _data(report: DiffReport, headline: Sequence[str]) -> dict[str, Any]:
    """Return the comparison for programs.

    Of two environments every cell is listed, of two sets of evidence those that are not the same.
    """
    answer: dict[str, Any] = {
        "before": report.before,
        "after": report.after,
        "headline": list(headline),
        "counts": _counts(report, report.comparable),
    }
    if report.sides is None:
        answer["not-the-same-cells"] = _counts(report, report.not_comparable)
    answer["cells"] = [
        _cell(report, difference)
        for difference in report.differences
        if report.sides
        or difference.moved
        or not (difference.change is CellChange.SAME and difference.is_comparable)
    ]
    return answer


def _counts(report: DiffReport, differences: Iterable[CellDifference]) -> dict[str, int]:
    counts = Counter(difference.change for difference in differences)
    # What a set of evidence lacks is new or gone.
    left_out = {} if report.sides else {CellChange.UNMEASURED}
    return {str(change): counts[change] for change in CellChange if change not in left_out}


def _cell(report: DiffReport, difference: CellDifference) -> dict[str, Any]:
    cell = difference.cell
    keys = {
        "case": cell.case,
        "workaround": cell.workaround,
        "environment": cell.environment,
        "precision": str(cell.precision),
        "device": str(cell.device),
        "change": str(difference.change),
        "comparable": difference.is_comparable,
        "grounds": [str(ground) for ground in difference.grounds],
        "before": _side(difference.before),
        "after": _side(difference.after),
        "moved": {
            each.name: [_number(each.before), _number(each.after)] for each in difference.moved
        },
        "again": report.again(cell),
    }
    return {key: keys[key] for key in keys if report.sides is None or key not in _OF_EVIDENCE}


def _number(value: float) -> float | str:
    """Return a number for JSON, which has neither infinity nor NaN."""
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
