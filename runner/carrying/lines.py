"""How a run tells a log file where it is: a line now and then, and one per surprise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.telling.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.model.observation import Observation
    from runner.model.outcomes import Verdict

_EVERY = 5.0


class Lines:
    """Listens to a run and says lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """Nothing was measured yet."""
        self.say = say
        self.cells = self.measured_cells = self.surprises = 0
        self.start = self.told = time.monotonic()

    @property
    def summary(self) -> str:
        """What a run came to."""
        spent = time.monotonic() - self.start
        cells = count(self.measured_cells, "cell")
        return f"{cells} measured in {spent:.0f} s, {count(self.surprises, 'surprise')}."

    def began(self, units: int, cells: int) -> None:
        """Say how much there is to do."""
        self.cells = cells
        self.say(f"{count(cells, 'cell')} to run in {count(units, 'environment')}.")

    def phase(self, environment: str, doing: str) -> None:
        """Say what is begun that takes long."""
        if doing in {"building", "importing"}:
            self.say(f"  {environment}: {doing}")

    def measured(self, seen: Observation, verdict: Verdict) -> None:
        """Count a cell, say its surprise, and now and then how far the run is."""
        again = seen.repeats > 1
        self.measured_cells += not again
        if verdict.is_surprise and not again:
            self.surprises += 1
            self.say(f"  {verdict}: {' '.join(filter(None, map(str, seen.cell)))}: {_what(seen)}")
        if time.monotonic() - self.told > _EVERY:
            self.told = time.monotonic()
            self.say(f"  {self.measured_cells} of {self.cells} cells{self._left()}")

    def _left(self) -> str:
        spent = time.monotonic() - self.start
        left = spent / max(1, self.measured_cells) * (self.cells - self.measured_cells)
        return f", about {max(1, round(left / 60))} min left"

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        """Say why an environment cannot run its cells."""
        self.say(f"  {environment}: {count(cells, 'cell')} not run: {reason}")

    def done(self, environment: str) -> None:
        """Say that an environment has nothing left to run."""
        self.say(f"  {environment}: done, {self.measured_cells} of {self.cells} cells so far")


def _what(seen: Observation) -> str:
    return f"{seen.outcome}: {seen.failed.headline[:200]}" if seen.failed else str(seen.outcome)
