"""Two sets of evidence, cell by cell: what became of each, and what else is not the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from runner.judging.difference import Word, change, moved, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.judging.difference import Change, Moved
    from runner.model.case import Case
    from runner.model.cell import Cell
    from runner.model.observation import Observation


class Ground(StrEnum):
    """What is not the same on both sides beside the answer."""

    CASE = "case"
    PINS = "pins"
    PROTOCOL = "protocol"
    TORCH = "torch"
    HARDWARE = "hardware"

    @property
    def makes_another_cell(self) -> bool:
        """Whether the two sides ran different things under one name."""
        match self:
            case Ground.CASE | Ground.PINS | Ground.PROTOCOL:
                return True
            case Ground.TORCH | Ground.HARDWARE:
                return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Met:
    """A cell of one set met by the same cell of the other, or by nothing."""

    cell: Cell
    change: Change
    before: Observation | None
    after: Observation | None
    grounds: tuple[Ground, ...] = ()
    moved: tuple[Moved, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether both sides ran the same: then the change is one of what was measured."""
        return not any(ground.makes_another_cell for ground in self.grounds)


def grounds(before: Observation | None, after: Observation | None) -> tuple[Ground, ...]:
    """Name what is not the same on two sides that both ran the cell."""
    if before is None or after is None or not (before.outcome.was_run and after.outcome.was_run):
        return ()
    one, other = before.provenance, after.provenance
    differing = {
        Ground.CASE: one.case_digest != other.case_digest,
        Ground.PINS: one.environment_digest != other.environment_digest,
        Ground.PROTOCOL: one.protocol != other.protocol,
        Ground.TORCH: one.torch_build != other.torch_build,
        Ground.HARDWARE: one.hardware != other.hardware,
    }
    return tuple(ground for ground in Ground if differing[ground])


def meet(
    before: Mapping[Cell, Observation],
    after: Mapping[Cell, Observation],
    cases: Mapping[str, Case],
    names: Sequence[str],
) -> tuple[Met, ...]:
    """Let every cell that is applicable on a side meet the other side, in the table's order.

    Cases and environments that are not known here come last, by name.
    """
    return tuple(_met(before, after, cases, _ordered({*before, *after}, list(cases), names)))


def _met(
    before: Mapping[Cell, Observation],
    after: Mapping[Cell, Observation],
    cases: Mapping[str, Case],
    cells: Iterable[Cell],
) -> Iterator[Met]:
    for cell in cells:
        one, other = before.get(cell), after.get(cell)
        if {word(one), word(other)} != {Word.ABSENT}:
            yield Met(
                cell=cell,
                change=change(cases.get(cell.case), one, other),
                before=one,
                after=other,
                grounds=grounds(one, other),
                moved=moved(one, other),
            )


def _ordered(cells: Iterable[Cell], cases: Sequence[str], names: Sequence[str]) -> list[Cell]:
    case_at = {name: number for number, name in enumerate(cases)}
    name_at = {name: number for number, name in enumerate(names)}

    def place(cell: Cell) -> tuple[object, ...]:
        return (
            *(case_at.get(cell.case, len(case_at)), cell.case, cell.workaround),
            *(tuple(type(cell.precision)).index(cell.precision), cell.device),
            *(name_at.get(cell.environment, len(name_at)), cell.environment),
        )

    return sorted(cells, key=place)
