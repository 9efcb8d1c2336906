"""Two sides from what is known and what had to be run, made comparable where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.comparing import grid
from runner.judging.difference import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from runner.comparing.asked import Asked
    from runner.comparing.checkout import Bench
    from runner.evidence.store import Store
    from runner.judging.difference import Side
    from runner.model.cell import Cell
    from runner.model.observation import Observation

Sides = tuple["Side", "Side"]


def of_environments(
    asked: Asked, names: tuple[str, str], rows: Sequence[Observation], store: Store
) -> Sides:
    """Return two environments of the grid; raises RunnerError and Interrupted."""
    rows = grid.measure(asked, store, rows)

    def sides(rows: Sequence[Observation]) -> Sides:
        return grid.side(asked, names[0], rows), grid.side(asked, names[1], rows)

    return _settled(asked, sides, rows, store)


def with_checkout(
    asked: Asked, base: str, bench: Bench, rows: Sequence[Observation], store: Store
) -> Sides:
    """Return a release and a checkout in its environment; raises RunnerError and Interrupted."""
    # First: one that cannot be imported is told before anything is measured.
    bench.prepare(bench.trials(grid.side(asked, base, rows)))
    rows = grid.measure(asked, store, rows)
    known = grid.side(asked, base, rows)
    found = bench.trials(known)
    bench.run(bench.prepare(found), known)

    def sides(rows: Sequence[Observation]) -> Sides:
        before = grid.side(asked, base, rows)
        return before, bench.side(found, before)

    return _settled(asked, sides, rows, store)


def _settled(
    asked: Asked,
    sides: Callable[[Sequence[Observation]], Sides],
    rows: Sequence[Observation],
    store: Store,
) -> Sides:
    """Measure again what differs and was measured on another machine, or with another torch.

    Otherwise a difference between two machines would be told as one between two sources.
    """
    found = sides(rows)
    foreign = frozenset(_foreign(asked, *found))
    return sides(grid.measure(asked, store, rows, foreign)) if foreign else found


def _foreign(asked: Asked, before: Side, after: Side) -> Iterator[Cell]:
    within: Collection[str] = asked.selection.environments
    for pair in compare(before, after, asked.project.cases):
        both = [row for row in (pair.before, pair.after) if row and row.outcome.was_run]
        if pair.change.differs and len({_ground(row) for row in both}) > 1:
            for row in both:
                if row.cell.environment in within and row.provenance.run != asked.terms.run:
                    yield row.cell


def _ground(row: Observation) -> tuple[str, str]:
    return row.provenance.hardware, row.provenance.torch_build
