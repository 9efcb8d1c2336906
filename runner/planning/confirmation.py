"""A run that confirms what is published: which cells, in which order, and what that bounds. Pure.

First the newest release, every case without a workaround; then some releases coarse to fine, then
the others in an order that a seed draws. On each of these the cells beside a change that cases
expect, and cells at random. Where all releases were visited, more of their cells follow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from repromatrix.runner.model.cell import Cell, Environment, Source, belongs, cells_of
from repromatrix.runner.planning.plan import Axes, Why, applicable, coarse_to_fine, deciding

FIXED = 6
"""Releases that are visited after the newest whatever the seed, coarse to fine."""
AT_RANDOM = 140
"""Cells at random of a release at its first visit; each further visit takes four times as many."""
_MORE = 4
_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """One release with what is measured there."""

    environment: str
    chosen: tuple[Cell, ...]
    """Cells that are measured whatever the seed: on the newest release, and beside a change."""
    at_random: tuple[Cell, ...]
    """Cells in the order in which they were drawn, each of the release being as likely."""
    drawn: bool
    """Whether the seed chose the release."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All of them, in the order in which they are measured."""
        return tuple(dict.fromkeys((*self.chosen, *self.at_random)))


def plain_releases(environments: Mapping[str, Environment]) -> list[str]:
    """Return the releases without extras, oldest first."""
    return [
        name
        for name, environment in environments.items()
        if environment.source is Source.RELEASE and not environment.extras
    ]


def visits(grid: Axes, seed: int) -> Iterator[Visit]:
    """Yield what is measured one after the other, until each cell of each release has been."""
    releases = plain_releases(grid.environments)
    if not releases:
        return
    newest, *others = coarse_to_fine(releases)
    fixed, drawn = others[:FIXED], others[FIXED:]
    Random(seed).shuffle(drawn)  # noqa: S311 - a sample, not a secret
    cells = {name: _cells(grid, name) for name in releases}
    plain = tuple(cell for cell in cells[newest] if not cell.workaround)
    yield Visit(environment=newest, chosen=plain, at_random=(), drawn=False)
    beside = _beside_changes(grid, releases)
    orders = {name: _at_random(grid, cells[name], f"{seed} {name}") for name in releases}
    turn, count = [*fixed, *drawn], AT_RANDOM
    first = True
    while any(orders.values()):
        for name in turn:
            some, orders[name] = orders[name][:count], orders[name][count:]
            yield Visit(
                environment=name,
                chosen=tuple(beside[name]) if first else (),
                at_random=tuple(some),
                drawn=name in drawn,
            )
        turn, count, first = [*fixed, *drawn, newest], count * _MORE, False


def _cells(grid: Axes, name: str) -> tuple[Cell, ...]:
    environment = grid.environments[name]
    every = [
        cell
        for case in grid.cases.values()
        if belongs(case, environment)
        for cell in cells_of(case, name, grid.precisions, grid.device)
    ]
    return applicable(every, grid.cases, environment)


def _beside_changes(grid: Axes, releases: Sequence[str]) -> dict[str, list[Cell]]:
    plain = replace(grid, environments={name: grid.environments[name] for name in releases})
    found: dict[str, list[Cell]] = {name: [] for name in releases}
    for cell, why in deciding(plain, {}).items():
        if why is Why.CHANGE:
            found[cell.environment].append(cell)
    return found


def _at_random(grid: Axes, cells: Iterable[Cell], seed: str) -> list[Cell]:
    """Return cells in a random order of which each beginning has all strata in proportion.

    A stratum is an area in one precision. Each is shuffled and spread evenly over the order, from a
    random place, so that every cell is as likely as another to be among the first.
    """
    rng = Random(seed)  # noqa: S311 - a sample, not a secret
    strata: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        key = grid.cases[cell.case].block.area, cell.precision.value
        strata.setdefault(key, []).append(cell)
    placed: list[tuple[float, Cell]] = []
    for stratum in strata.values():
        rng.shuffle(stratum)
        start = rng.random()
        placed += [((rank + start) / len(stratum), cell) for rank, cell in enumerate(stratum)]
    return [cell for _, cell in sorted(placed)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """At most what share of a whole differs, at 95 %, by how many of a sample did."""

    sample: int
    differing: int

    @property
    def share(self) -> float:
        """The upper end of the one-sided interval of Clopper and Pearson; 1 without a sample."""
        return upper_bound(self.differing, self.sample)


def bounds(
    turns: Iterable[Visit], agrees: Mapping[Cell, bool], confirming: Collection[Cell]
) -> tuple[Bound, Bound]:
    """Return the bound for cells of the visited releases, and that for cells of all releases.

    `agrees` says of each cell that was measured whether it agrees with what is published,
    `confirming` are those that were measured in these turns, whoever measured the others. For the
    second bound a release is one draw, and differs wholly if one of its random cells does: cells of
    one environment may be wrong together. The releases that the seed did not choose are no sample.
    """
    cells: dict[Cell, bool] = {}
    releases: dict[str, bool] = {}
    before: set[Cell] = set()
    for turn in turns:
        # How far it came in the order that was drawn. A cell that was to be measured anyway says
        # nothing of that: those behind it may be missing.
        anyway = before.union(turn.chosen)
        reached = [
            place
            for place, cell in enumerate(turn.at_random, 1)
            if cell in confirming and cell not in anyway
        ]
        before.update(turn.chosen)
        sample = turn.at_random[: max(reached, default=0)]
        own = {cell: agrees[cell] for cell in sample if cell in agrees}
        cells |= own
        if own and turn.drawn:
            name = turn.environment
            releases[name] = releases.get(name, True) and all(own.values())
    return _bound(cells.values()), _bound(releases.values())


def _bound(agreeing: Collection[bool]) -> Bound:
    return Bound(sample=len(agreeing), differing=sum(not each for each in agreeing))


def upper_bound(differing: int, sample: int, confidence: float = _CONFIDENCE) -> float:
    """Return the share that so many of a sample bound from above (Clopper and Pearson, 1934)."""
    if differing >= sample:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if _at_most(differing, sample, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(differing: int, sample: int, share: float) -> float:
    """Return how likely at most so many of a sample differ where a share of the whole does."""
    if not 0 < share < 1:
        return float(share == 0)
    return sum(
        math.exp(
            math.lgamma(sample + 1)
            - math.lgamma(k + 1)
            - math.lgamma(sample - k + 1)
            + k * math.log(share)
            + (sample - k) * math.log1p(-share)
        )
        for k in range(differing + 1)
    )
