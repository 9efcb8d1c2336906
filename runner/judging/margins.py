"""The thresholds that cases assert of what they measure, and how far off a value stands. Pure."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from repromatrix.runner.model.case import syntax_tree

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


def thresholds(code: str) -> tuple[Threshold, ...]:
    """Return what the assertions of a case hold measured quantities against.

    Only comparisons of `measured["…"]` with a number other than 0 are thresholds: what must be
    exactly 0 or 1 has no margin.
    """
    asserted = (node.test for node in ast.walk(syntax_tree(code)) if isinstance(node, ast.Assert))
    compared = (node for test in asserted for node in ast.walk(test))
    comparisons = (node for node in compared if isinstance(node, ast.Compare))
    return tuple(dict.fromkeys(found for node in comparisons for found in _of(node)))


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
