"""How far what cases measure stands off the thresholds that they assert. Pure."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from repromatrix.runner.model.case import syntax_tree
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation

LEAST = 3.0
"""How many times off its threshold a value stands at least, on either side."""
_BELOW = {ast.Lt: True, ast.LtE: True, ast.Gt: False, ast.GtE: False}


class Threshold(NamedTuple):
    """What a case asserts of a measured quantity; `below` says that it passes under `limit`."""

    quantity: str
    below: bool
    limit: float

    def __str__(self) -> str:
        """Return `relative_error < 0.05`."""
        return f"{self.quantity} {'<' if self.below else '>'} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Say whether a value passes; NaN does not."""
        return value < self.limit if self.below else value > self.limit

    def times_off(self, value: float) -> float:
        """Return how many times off the threshold a value stands, on its own side."""
        if not math.isfinite(value) or value == 0:
            return math.inf
        ratio = abs(value) / self.limit
        return max(ratio, 1 / ratio)


class Extreme(NamedTuple):
    """The value on one side that is nearest to a threshold, and where it was measured."""

    value: float
    times_off: float
    cell: Cell
    seed: str


class Margin(NamedTuple):
    """What stands nearest to a threshold on both sides; None where nothing was measured there."""

    threshold: Threshold
    passing: Extreme | None
    failing: Extreme | None


def thresholds(code: str) -> tuple[Threshold, ...]:
    """Return what the assertions of a case hold measured quantities against.

    Only comparisons of `measured["…"]` with a number other than 0 are thresholds: what must be
    exactly 0 or 1 has no margin.
    """
    asserted = (node.test for node in ast.walk(syntax_tree(code)) if isinstance(node, ast.Assert))
    compared = (node for test in asserted for node in ast.walk(test))
    found = (one for node in compared if isinstance(node, ast.Compare) for one in _of(node))
    return tuple(dict.fromkeys(found))


def _of(node: ast.Compare) -> Iterator[Threshold]:
    operands = [node.left, *node.comparators]
    for (left, right), operator in zip(pairwise(operands), node.ops, strict=True):
        below = _BELOW.get(type(operator))
        if below is None:
            continue
        for measured, number, is_below in ((left, right, below), (right, left, not below)):
            match measured, number:
                case (
                    ast.Subscript(
                        value=ast.Name(id="measured"), slice=ast.Constant(value=str(quantity))
                    ),
                    ast.Constant(value=int() | float() as limit),
                ) if limit:
                    yield Threshold(quantity, is_below, float(limit))
                case _:
                    pass


def margins(
    asserted: Iterable[Threshold], seen: Iterable[tuple[str, Observation]]
) -> tuple[Margin, ...]:
    """Return the margins of thresholds over cells, each with the seed that it was run with."""
    rows = list(seen)
    return tuple(
        Margin(one, _nearest(one, rows, holds=True), _nearest(one, rows, holds=False))
        for one in asserted
    )


def _nearest(
    threshold: Threshold, rows: Iterable[tuple[str, Observation]], *, holds: bool
) -> Extreme | None:
    values = (
        Extreme(value, threshold.times_off(value), row.cell, seed)
        for seed, row in rows
        if (value := row.measured.get(threshold.quantity)) is not None
        and threshold.holds(value) is holds
    )
    return min(values, key=lambda one: (one.times_off, one.cell, one.seed), default=None)
