"""A unit on its way: where it is, what came back of it, and where it is not sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.cluster.frames import Frames
from runner.planning.plan import Unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.model.cell import Cell
    from runner.model.observation import Observation


@dataclass(kw_only=True, slots=True)
class Flight:
    """A unit that is sent to nodes until all of it has come back, or nobody can run it."""

    unit: Unit
    seen: dict[Cell, Observation] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Nodes that cannot run it, with the reason."""
    avoided: frozenset[str] = frozenset()
    """Nodes that it was kept away from when it was sent."""
    losses: list[str] = field(default_factory=list)
    node: str = ""
    kind: str = ""
    refused: str = ""
    """Why the node that it is on cannot run it."""
    broke: str = ""
    """How the process there ended before its work did."""
    frames: Frames = field(default_factory=Frames)

    def again(self) -> None:
        """Forget where it was; what came back stays, and where it was refused."""
        self.node, self.kind, self.refused, self.broke = "", "", "", ""
        self.frames = Frames()

    def is_news(self, row: Observation) -> bool:
        """Say whether a row is the first of its cell, or what its repeats gave; and remember it."""
        before = self.seen.get(row.cell)
        if before is not None and row.repeats <= before.repeats:
            return False
        self.seen[row.cell] = row
        return True

    @property
    def left(self) -> Unit:
        """The unit without the cells that came back."""
        cells = tuple(cell for cell in self.unit.cells if cell not in self.seen)
        return Unit(environment=self.unit.environment, cells=cells)

    def unconfirmed(self, doubted: Callable[[Observation], bool]) -> tuple[Observation, ...]:
        """Return what came back, is doubted, and was not repeated before its node was lost."""
        return tuple(row for row in self.seen.values() if row.repeats == 1 and doubted(row))
