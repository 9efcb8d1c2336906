"""The pages drawn again while a run goes on: seldom enough to cost next to nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from repromatrix.runner import site
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.files import UnwritableError, told
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.project import Project

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


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnPages:
    """What the pages show: every row that there is, and the whole grid with its meaning."""

    rows: Sequence[Observation]
    grid: Sequence[Judged]


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
        self.undrawn: UnwritableError | None = None
        """Why the last drawing could not be written."""
        # Cores wait while the first environment starts, and again while the pages are drawn.
        ahead = ThreadPoolExecutor(1)
        self.published = ahead.submit(self._prepare)
        ahead.shutdown(wait=False)

    def now_and_then(self, left: int) -> None:
        """Draw, if it is time to, with that many environments left to run."""
        if is_due(time.monotonic() - self.last, self.cost, left, self.jobs):
            self.finally_()

    def _prepare(self) -> list[Observation]:
        site.prepare()
        return list(answers.published_rows(self.project.places))

    def finally_(self) -> DrawnPages:
        """Draw, and return what is shown."""
        begin = time.monotonic()
        stored = self.store.rows() if self.store.written else self.stored
        rows = [*self.published.result(), *stored]
        meant = site.judged_grid(self.project, rows)
        try:
            with told(site.index(self.project.places)):
                site.render(self.project, rows, meant=meant)
            self.undrawn = None
        except UnwritableError as error:
            self.undrawn = error  # what is measured goes on, and is kept elsewhere
        self.last = time.monotonic()
        self.cost = self.last - begin
        self.first = self.first or self.last - self.began
        return DrawnPages(rows=rows, grid=meant[1])
