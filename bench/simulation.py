"""Planner and engine as a model, fed with measured costs: what many workers would do.

`nox -s bench -- --simulation`. Units are begun in their order by whoever is free; a unit builds,
imports once, and runs its cells one after the other; what comes out of all of them goes through
one driver, which judges and stores it. Nothing here runs a case; `calibration` measures the costs.
"""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CASES, RELEASES, PRECISIONS, DEVICES = 1000, 300, 3, 4
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
PART = 600
"""Cells of one part where an environment is split: long enough that its import hardly counts."""
_NOISE = 0.05
_BINS = 2000
_INSTANT = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Seconds, as they were measured."""

    begin: float
    """One import, until the first cell can be forked."""
    build: float
    fork: float
    """What a cell takes beside its own time."""
    driver: float
    """What one event takes in the one process that judges and stores."""
    cells: tuple[float, ...]
    """The own time of cells, a sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one worker does in one go."""

    begin: float
    cells: tuple[float, ...]
    """Of each cell its time, that of the fork included."""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.begin + sum(self.cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a simulated run came to."""

    workers: int
    wall: float
    busy: float
    """Core-seconds of all workers."""
    useful: float
    """Core-seconds of the cells alone, which no engine can save."""
    driver: float
    """The share of the time in which the driver is busy."""
    limit: str
    """What keeps more workers from making it quicker."""

    @property
    def efficiency(self) -> float:
        """The share of the paid time that cells ran in."""
        return self.useful / (self.workers * self.wall)


def grid(costs: Costs, *, split: bool, seed: int = 0) -> tuple[Work, ...]:
    """Return 3.6 million cells as units, one per release and device, or as parts of them."""
    dice = random.Random(seed)  # noqa: S311 - nothing here is a secret
    own = [seconds + costs.fork for seconds in dice.choices(costs.cells, k=CASES * PRECISIONS)]
    size = PART if split else len(own)
    found: list[Work] = []
    for _ in range(RELEASES * DEVICES):
        swing = 1 + dice.uniform(-_NOISE, _NOISE)
        cells = tuple(seconds * swing for seconds in own)
        parts = [cells[at : at + size] for at in range(0, len(cells), size)]
        found += [Work(begin=costs.begin + costs.build, cells=part) for part in parts]
    return tuple(found)


def simulate(works: Sequence[Work], workers: int, driver: float = 0.0) -> Outcome:
    """Return how long units take that are begun in their order by whoever is free."""
    free = [0.0] * min(workers, max(1, len(works)))
    spans: list[tuple[float, float, int]] = []
    for work in works:
        begin = heapq.heappop(free)
        end = begin + work.seconds
        heapq.heappush(free, end)
        spans.append((begin + work.begin, end, len(work.cells)))
    last = max(free)
    wall = _heard(spans, last, driver)
    events = sum(count for *_, count in spans)
    useful = sum(sum(work.cells) for work in works)
    return Outcome(
        workers=workers,
        wall=wall,
        busy=sum(work.seconds for work in works),
        useful=useful,
        driver=events * driver / wall if wall else 0.0,
        limit=_limit(works, workers, last, wall),
    )


def _heard(spans: Sequence[tuple[float, float, int]], last: float, driver: float) -> float:
    """Return when the driver has heard everything; cells of a unit come evenly."""
    if not driver or last < _INSTANT:
        return last + driver * sum(count for *_, count in spans)
    width = last / _BINS
    arriving = [0.0] * (_BINS + 1)
    for begin, end, count in spans:
        first, behind = int(begin / width), min(_BINS, int(end / width))
        share = count / (behind - first + 1)
        for at in range(first, behind + 1):
            arriving[at] += share
    waiting = 0.0
    for came in arriving:
        waiting = max(0.0, waiting + came - width / driver)
    return last + waiting * driver


def _limit(works: Sequence[Work], workers: int, last: float, wall: float) -> str:
    """Say what would have to change for more workers to help."""
    if wall > 1.05 * last:
        return "the driver's rate"
    if workers >= len(works):
        return "the number of units"
    mean = sum(work.seconds for work in works) / workers
    return "the longest unit" if last > 1.1 * mean else "the workers"


def table(costs: Costs, workers: Sequence[int] = WORKERS) -> Iterator[tuple[str, float, str, str]]:
    """Yield what is told of each number of workers, environments whole and split: wall time."""
    for count, split in itertools.product(workers, (False, True)):
        found = simulate(_grids(costs)[split], count, costs.driver)
        told = f"{found.efficiency:.0%} useful, driver busy {found.driver:.0%}"
        paid = f"{found.workers * found.wall / 3600:,.0f} core-hours"
        name = f"{count} worker{'s' * (count > 1)}{', split' * split}"
        yield name, found.wall / 3600, "h", f"{paid}, {told}; limited by {found.limit}"


_KEPT: dict[Costs, tuple[tuple[Work, ...], tuple[Work, ...]]] = {}


def _grids(costs: Costs) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    if costs not in _KEPT:
        _KEPT[costs] = grid(costs, split=False), grid(costs, split=True)
    return _KEPT[costs]
