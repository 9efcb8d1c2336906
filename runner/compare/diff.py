"""What differs between two maps of cells. Pure.

Two environments are compared under cells without an environment (`without_environment`), two sets
of evidence under whole cells; snapshots and the pages of releases use the same comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from repromatrix.runner.judging.verdicts import described
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome, Reading

_FAR = 0.1
"""The relative change of a measured number from which on it is listed."""

NOWHERE = frozenset({Reading.ABSENT, Reading.UNASKED})
"""What both sides say of a cell that there is nothing to say about."""

Rows = Mapping[Cell, Observation]
"""One side: what is known of each cell."""


class CellChange(StrEnum):
    """How a cell changed from one side to the other."""

    BROKE = "broke"
    FIXED = "fixed"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "unknown"
    UNMEASURED = "unmeasured"
    """One side alone was asked, or what the other needs was not there."""
    SAME = "same"

    @property
    def differs(self) -> bool:
        """Whether the two sides are known to differ."""
        return self not in {CellChange.UNKNOWN, CellChange.UNMEASURED, CellChange.SAME}


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A measured number that moved though both sides pass."""

    name: str
    before: float
    after: float


def answer(seen: Observation | None, cell: Cell | None = None) -> Reading:
    """Return what a side says of a cell.

    That an environment has no row of it means that nobody asked: there is one of what does not
    apply. Of a whole cell it means that it is in the other set of evidence only.
    """
    if seen is not None:
        return seen.reading
    return Reading.UNASKED if cell and not cell.environment else Reading.ABSENT


def is_described(case: Case | None, seen: Observation) -> bool:
    """Return whether a failure is one that the case describes, wherever it expects it."""
    return case is not None and any(described(entry, seen) for entry in case.block.fails)


def change(
    case: Case | None,
    before: Observation | None,
    after: Observation | None,
    cell: Cell | None = None,
) -> CellChange:
    """Return how a cell changed; without its case only the signatures are compared."""
    known = by_answers(answer(before, cell), answer(after, cell))
    if known is not None:
        return known
    assert before is not None  # noqa: S101 - what is None is absent
    assert after is not None  # noqa: S101
    return CellChange.SAME if kind(case, before) == kind(case, after) else CellChange.CHANGED


Kind = tuple[Outcome, str, bool]
"""What two results share that are the same: outcome, signature, and whether it is described."""


def kind(case: Case | None, seen: Observation) -> Kind:
    """Return what a result shares with those that are the same."""
    return *seen.kind, is_described(case, seen)


def by_answers(before: Reading, after: Reading) -> CellChange | None:  # noqa: PLR0911 - a table
    """Return how a cell changed by what both sides say; None where their kinds decide."""
    if {before, after} <= NOWHERE:
        return CellChange.SAME
    if Reading.UNASKED in {before, after}:
        return CellChange.UNMEASURED
    if Reading.UNKNOWN in {before, after}:
        return CellChange.UNKNOWN
    match before, after:
        case (Reading.ABSENT, _):
            return CellChange.NEW
        case (_, Reading.ABSENT):
            return CellChange.GONE
        case (Reading.GOOD, Reading.BAD):
            return CellChange.BROKE
        case (Reading.BAD, Reading.GOOD):
            return CellChange.FIXED
        case _:
            return None if before is after else CellChange.CHANGED


def _moved(before: Observation | None, after: Observation | None) -> Iterator[Moved]:
    if before is None or after is None or {answer(before), answer(after)} != {Reading.GOOD}:
        return
    for name in sorted(before.measured.keys() & after.measured.keys()):
        old, new = before.measured[name], after.measured[name]
        are_nan = math.isnan(old) and math.isnan(new)
        if not are_nan and not math.isclose(old, new, rel_tol=_FAR):
            yield Moved(name=name, before=old, after=new)


class DiffGround(StrEnum):
    """What differs between both sides beside the result."""

    CASE = "case"
    PINS = "pins"
    PROTOCOL = "protocol"
    TORCH = "torch"
    HARDWARE = "hardware"

    @property
    def makes_another_cell(self) -> bool:
        """Whether the two sides ran different things under one name."""
        return self not in {DiffGround.TORCH, DiffGround.HARDWARE}


@dataclass(frozen=True, kw_only=True, slots=True)
class CellDifference:
    """One cell on both sides, and how it changed; a side without the cell is None."""

    cell: Cell
    """What both sides have in common: of two environments it names neither."""
    change: CellChange
    before: Observation | None
    after: Observation | None
    grounds: tuple[DiffGround, ...] = ()
    moved: tuple[Moved, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether both sides ran the same code: then the change is one of the result."""
        return not any(ground.makes_another_cell for ground in self.grounds)


def without_environment(cell: Cell) -> Cell:
    """Return what a cell has in common with the same cell in another environment."""
    return cell._replace(environment="")


def grounds(before: Observation | None, after: Observation | None) -> tuple[DiffGround, ...]:
    """Return what else differs where both sides ran a cell in the same environment.

    For two environments that is nothing: their pins are meant to differ.
    """
    if before is None or after is None or before.cell.environment != after.cell.environment:
        return ()
    if not (before.outcome.was_run and after.outcome.was_run):
        return ()
    old, new = before.provenance, after.provenance
    differing = {
        DiffGround.CASE: old.case_digest != new.case_digest,
        DiffGround.PINS: old.environment_digest != new.environment_digest,
        DiffGround.PROTOCOL: old.protocol != new.protocol,
        DiffGround.TORCH: old.torch_build != new.torch_build,
        DiffGround.HARDWARE: old.hardware != new.hardware,
    }
    return tuple(ground for ground in DiffGround if differing[ground])


def compare(before: Rows, after: Rows, cases: Mapping[str, Case]) -> tuple[CellDifference, ...]:
    """Compare the cells that are applicable on a side or on both, in the order given."""
    return tuple(
        CellDifference(
            cell=cell,
            change=change(cases.get(cell.case), old, new, cell),
            before=old,
            after=new,
            grounds=grounds(old, new),
            moved=tuple(_moved(old, new)),
        )
        for cell in dict.fromkeys([*before, *after])
        for old, new in [(before.get(cell), after.get(cell))]
        if not {answer(old, cell), answer(new, cell)} <= NOWHERE
    )


def in_table_order(
    differences: Iterable[CellDifference], cases: Iterable[str], environments: Iterable[str]
) -> tuple[CellDifference, ...]:
    """Sort by case and environment; those that this checkout does not have come last, by name."""
    case_at = {name: number for number, name in enumerate(cases)}
    environment_at = {name: number for number, name in enumerate(environments)}

    def place(difference: CellDifference) -> tuple[object, ...]:
        cell = difference.cell
        return (
            *(case_at.get(cell.case, len(case_at)), cell.case, cell.workaround),
            *(tuple(type(cell.precision)).index(cell.precision), cell.device),
            *(environment_at.get(cell.environment, len(environment_at)), cell.environment),
        )

    return tuple(sorted(differences, key=place))
