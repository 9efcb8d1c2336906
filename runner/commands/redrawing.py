"""The pages drawn again while a run goes on: seldom enough to cost next to nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner import rendering
from runner.evidence import reading

if TYPE_CHECKING:
    from runner.evidence.store import Store
    from runner.model.observation import Observation
    from runner.project import Project

EVERY = 60.0
"""Seconds between two drawings, at least."""
SHARE = 0.02
"""How much of a run's time may go into pages that the next ones replace."""


def is_due(since: float, cost: float, left: int, jobs: int) -> bool:
    """Say whether the pages are worth drawing in the middle of a run.

    `since` is how many seconds ago they were drawn, `cost` how many that took. Where no more
    environments are left than run at once, the end is near, and with it the last drawing.
    """
    return left > jobs and since > max(EVERY, cost / SHARE)


class Redrawing:
    """Renders what there is: after the first environment, now and then, and at the end."""

    def __init__(self, loaded: Project, store: Store, stored: list[Observation], jobs: int) -> None:
        """Nothing is drawn yet; `stored` is what the store held when the run began."""
        self.project = loaded
        self.store = store
        self.stored = stored
        self.jobs = jobs
        self.began = time.monotonic()
        self.first = 0.0
        self.cost = 0.0
        self.last = float("-inf")

    def now_and_then(self, left: int) -> None:
        """Draw, if it is time to, with that many environments left to run."""
        if is_due(time.monotonic() - self.last, self.cost, left, self.jobs):
            self.finally_()

    def finally_(self) -> list[Observation]:
        """Draw, and return every row that there is."""
        begin = time.monotonic()
        stored = self.store.rows() if self.store.written else self.stored
        rows = [*reading.published_rows(self.project.places), *stored]
        rendering.render(self.project, rows)
        self.last = time.monotonic()
        self.cost = self.last - begin
        self.first = self.first or self.last - self.began
        return rows
