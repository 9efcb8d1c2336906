"""What `blame` is asked, and the evidence that it begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.model.cell import Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.model.case import Case
    from runner.model.observation import Observation
    from runner.model.outcomes import Device, Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked: one cell of a case between two environments."""

    case: Case
    workaround: str
    precision: Precision
    device: Device
    good: str
    bad: str
    any_failure: bool = False

    def cell(self, environment: str) -> Cell:
        """Return its cell in an environment."""
        return Cell(self.case.name, self.workaround, environment, self.precision, self.device)

    def is_of(self, cell: Cell) -> bool:
        """Say whether a cell is one of those that it asks about, wherever it stands."""
        return cell == self.cell(cell.environment)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is stored, and where new rows go."""

    rows: tuple[Observation, ...]
    """The published ones, then those of this machine, then those of earlier searches."""
    keep: Callable[[Observation], None]
