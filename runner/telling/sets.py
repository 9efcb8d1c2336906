"""What differs between two sets of evidence, in words: cell by cell, nothing run."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.judging.difference import Change, Word, word
from runner.judging.sets import Ground
from runner.telling.difference import HEADINGS, happened
from runner.telling.wording import count, cut, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.judging.sets import Met
    from runner.model.case import Case
    from runner.model.observation import Observation

_WIDE = 400
_FEW = 4
"""How many neighbouring environments are each named."""
NEW_AND_GONE = {
    Change.NEW: "New: on the second side only",
    Change.GONE: "Gone: on the first side only",
}
GROUNDS = {
    Ground.CASE: "the case changed",
    Ground.PINS: "the pins changed",
    Ground.PROTOCOL: "cells are run in another way",
    Ground.TORCH: "another torch build",
    Ground.HARDWARE: "other hardware",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Two sets of evidence compared, with all that the page says."""

    before: str
    """The first side, in words."""
    after: str
    met: tuple[Met, ...]
    cases: Mapping[str, Case]
    environments: Sequence[str]
    """Those of this checkout in its order: a cell elsewhere cannot be measured again here."""
    of_one_set: bool = False
    """Whether both sides are publications of one published set."""

    @property
    def alike(self) -> tuple[Met, ...]:
        """The cells that are the same on both sides, and those of one side."""
        return tuple(met for met in self.met if met.is_comparable)

    @property
    def others(self) -> tuple[Met, ...]:
        """The cells that share no more than their names."""
        return tuple(met for met in self.met if not met.is_comparable)

    def again(self, met: Met) -> str:
        """Return the command that measures a cell again; nothing where it is not known here."""
        cell = met.cell
        case = self.cases.get(cell.case)
        if case is None or cell.environment not in self.environments:
            return ""
        if cell.workaround not in case.variants:
            return ""
        where = ["--case", cell.case, "--release", cell.environment]
        variant = ["--workaround", cell.workaround or "none"]
        device = [] if cell.device == "cpu" else ["--device", cell.device]
        said = [*where, "--precision", cell.precision, *variant, *device, "--rerun"]
        return shlex.join(["nox", "-s", "matrix", "--", *said])


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """The cells of a case that share what happened on both sides, and on what ground."""

    met: tuple[Met, ...]
    before: str
    after: str
    grounds: str

    def cells(self, order: Sequence[str]) -> str:
        """Name the cells: `plain bf16 on 4.50.0 4.50.1; cache-off bf16 on 4.50.0`.

        A stretch in which no environment of the order is missing is named by its ends.
        """
        named: dict[str, list[str]] = {}
        for one in self.met:
            cell = one.cell
            device = "" if cell.device == "cpu" else f" {cell.device}"
            variant = f"{cell.workaround or 'plain'} {cell.precision}{device}"
            named.setdefault(variant, []).append(cell.environment)
        shown = (f"{one} on {' '.join(_folded(told, order))}" for one, told in named.items())
        return printable("; ".join(shown))


def _folded(named: Iterable[str], order: Sequence[str]) -> Iterator[str]:
    place = {name: number for number, name in enumerate(order)}
    stretches: list[list[str]] = []
    for name in named:
        last = stretches[-1][-1] if stretches else ""
        if last in place and place.get(name) == place[last] + 1:
            stretches[-1].append(name)
        else:
            stretches.append([name])
    for found in stretches:
        if len(found) > _FEW:
            yield f"{found[0]} … {found[-1]} (all {len(found)})"
        else:
            yield from found


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Cells that became the same thing, by case."""

    heading: str
    groups: Mapping[str, tuple[Together, ...]]


def headline(answer: Compared) -> tuple[str, ...]:
    """Return the first lines: what was compared, what came of it, and on what it was measured."""
    sides = (
        ("First", [met.before for met in answer.met]),
        ("Second", [met.after for met in answer.met]),
    )
    lines = (
        f"{answer.before} against {answer.after}; nothing was run.",
        f"Of {_counted(answer.alike)}: {tallied(answer.alike)}.",
        *_of_others(answer),
        *_of_machines(answer),
        *_of_one_set(answer),
        *(f"{name} side: {_ground(rows)}." for name, rows in sides),
    )
    return tuple(map(printable, lines))


def tallied(found: Iterable[Met]) -> str:
    """Return how many cells became what, in words."""
    counts = Counter(met.change for met in found)
    return ", ".join(f"{counts[one]} {one}" for one in Change)


def _counted(found: Sequence[Met]) -> str:
    cases = count(len({met.cell.case for met in found}), "case")
    places = count(len({met.cell.environment for met in found}), "environment")
    return f"{count(len(found), 'cell')} of {cases} in {places}"


def _of_others(answer: Compared) -> Iterator[str]:
    if answer.others:
        why = Counter(ground for met in answer.others for ground in met.grounds)
        named = ", ".join(
            f"{GROUNDS[ground]} in {why[ground]}"
            for ground in Ground
            if ground.makes_another_cell and why[ground]
        )
        yield (
            f"Apart from these, {_counted(answer.others)} that are not the same cells on both"
            f" sides ({named}): {tallied(answer.others)}."
        )


def _of_machines(answer: Compared) -> Iterator[str]:
    machine = {Ground.TORCH, Ground.HARDWARE}
    number = sum(met.change.differs and bool(machine & {*met.grounds}) for met in answer.met)
    if number:
        yield (
            f"{count(number, 'cell')} of those that differ ran on other hardware or another torch"
            " build: the difference may be theirs."
        )


def _of_one_set(answer: Compared) -> Iterator[str]:
    if answer.of_one_set:
        yield (
            "A published cell belongs to the publication that measured it last, so two of one set"
            " share none; for an older set take its folder out of the history."
        )


def _ground(rows: Iterable[Observation | None]) -> str:
    held = [row for row in rows if row is not None]
    ran = [row for row in held if row.outcome.was_run]
    devices = _listed({row.cell.device.upper() for row in ran})
    hardware = _listed({row.provenance.hardware for row in ran})
    torch = _listed({row.provenance.torch_build for row in ran})
    python = _listed({row.provenance.python for row in ran})
    measured = f"measured on {devices} ({hardware}), torch {torch}, Python {python}"
    return f"{count(len(held), 'cell')}, {measured}"


def _listed(found: set[str]) -> str:
    return " and ".join(sorted(found - {""})) or "nothing"


def sections(answer: Compared) -> Iterator[Section]:
    """Yield what differs, first where both sides ran the same, then where they did not.

    Cells that neither side answers are counted, and not listed.
    """
    for change in HEADINGS:
        found = [met for met in answer.alike if met.change is change and not _is_mute(met)]
        heading = NEW_AND_GONE.get(change, HEADINGS[change])
        if found:
            yield Section(heading=heading, groups=grouped(answer, found))
    for change in HEADINGS:
        found = [met for met in answer.others if met.change is change and not _is_mute(met)]
        heading = f"Not the same cells: {change}"
        if found:
            yield Section(heading=heading, groups=grouped(answer, found))


def _is_mute(met: Met) -> bool:
    return {word(met.before), word(met.after)} == {Word.UNKNOWN}


def grouped(answer: Compared, found: Iterable[Met]) -> dict[str, tuple[Together, ...]]:
    """Return cells by case, those alike together."""
    by_case: dict[str, dict[tuple[str, str, str], list[Met]]] = {}
    for met in found:
        case = answer.cases.get(met.cell.case)
        grounds = ", ".join(GROUNDS[ground] for ground in met.grounds)
        said = (_happened(case, met.before), _happened(case, met.after), grounds)
        by_case.setdefault(met.cell.case, {}).setdefault(said, []).append(met)
    return {
        name: tuple(
            Together(met=tuple(those), before=said[0], after=said[1], grounds=said[2])
            for said, those in groups.items()
        )
        for name, groups in by_case.items()
    }


def _happened(case: Case | None, seen: Observation | None) -> str:
    return "not there" if seen is None else cut(happened(case, seen), _WIDE)


def titled(answer: Compared, name: str) -> str:
    """Return what a case is about, or that this checkout does not have it."""
    case = answer.cases.get(name)
    return case.block.title if case else "a case that this checkout does not have"


def moved(answer: Compared) -> Iterator[tuple[str, str, float, float]]:
    """Yield the cells that pass on both sides with another number: cell, name, both numbers."""
    for met in answer.alike:
        for one in met.moved:
            cell = met.cell
            variant = f"[{cell.workaround}]" if cell.workaround else ""
            named = f"{cell.case}{variant} {cell.precision} on {cell.environment}"
            yield cut(named, _WIDE), cut(one.name, _WIDE), one.before, one.after


def text(answer: Compared) -> str:
    """Return the page for a terminal."""
    lines = [*headline(answer)]
    for section in sections(answer):
        lines.extend(["", section.heading])
        for name, groups in section.groups.items():
            lines.append("  " + cut(f"{name}: {titled(answer, name)}", _WIDE))
            for group in groups:
                lines.extend(_text_of(answer, group))
    numbers = list(moved(answer))
    lines.extend(
        ["", "Moved: passes on both sides, a measured number is another"] if numbers else []
    )
    lines.extend(
        f"  {cell}: {name} {one:.3g} before, {other:.3g} after"
        for cell, name, one, other in numbers
    )
    # Names, too, are somebody else's.
    return "\n".join([*map(printable, lines), ""])


def _text_of(answer: Compared, group: Together) -> Iterator[str]:
    yield f"    {group.cells(answer.environments)}"
    yield f"      before  {group.before}"
    yield f"      after   {group.after}"
    if group.grounds:
        yield f"      note    {group.grounds}"
    again = answer.again(group.met[0])
    if again:
        yield f"      again   {again}"
