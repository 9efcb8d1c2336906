"""One search: where a cell of a case begins to fail, or is healed, along its releases. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.judging.answers import answer
from runner.judging.axes import axes
from runner.judging.expectations import expected
from runner.model.case import EVERY
from runner.model.cell import Cell, Source, obstacles
from runner.model.outcomes import Precision
from runner.searching.oracle import Answer
from runner.searching.transitions import Sought, changes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from runner.judging.axes import Axis, Point
    from runner.model.case import Case
    from runner.model.cell import Environment
    from runner.model.observation import Observation
    from runner.model.outcomes import Device
    from runner.searching.transitions import Edge


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is asked of every case."""

    precision: Precision
    device: Device
    workaround: str
    edge: Edge
    every: bool = False
    any_failure: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """A point that cannot be asked, and what keeps the case from it."""

    label: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A question about one case along one axis.

    `older` are points before the first that can run the case, `left_out` such points behind it.
    `runs` is off for an axis that is only answered from evidence.
    """

    case: Case
    wanted: Wanted
    axis: Axis
    sought: Sought
    older: tuple[Apart, ...] = ()
    left_out: tuple[Apart, ...] = ()
    signature: str = ""
    """What bad means for a case that describes no failure: the signature that was seen first."""
    runs: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The environments of its points, in order."""
        return tuple(point.environment for point in self.axis)

    def cell(self, place: int) -> Cell:
        """Return the cell at a point."""
        wanted = self.wanted
        environment = self.axis[place].environment
        return Cell(self.case.name, wanted.workaround, environment, wanted.precision, wanted.device)

    def answers(self, known: Mapping[Cell, Observation]) -> dict[int, Answer]:
        """Return what is known of its points."""
        return {
            place: self.answer(known[cell])
            for place in range(len(self.axis))
            if (cell := self.cell(place)) in known
        }

    def answer(self, seen: Observation | None) -> Answer:
        """Say whether an observation is bad in the sense of this search."""
        return answer(
            self.case, seen, any_failure=self.wanted.any_failure, signature=self.signature
        )

    def recognising(self, known: Mapping[Cell, Observation]) -> Search:
        """Return the search with the signature that bad means, once a failure was seen."""
        if self.case.block.fails or self.wanted.any_failure or self.signature:
            return self
        rows = (known.get(self.cell(place)) for place in reversed(range(len(self.axis))))
        failed = next((row.failed for row in rows if row is not None and row.failed), None)
        return dataclasses.replace(self, signature=failed.signature) if failed else self


def searches(
    case: Case,
    wanted: Wanted,
    environments: Mapping[str, Environment],
    within: Collection[str] | None = None,
) -> tuple[Search, ...]:
    """Return the search along the releases, and one along each package of which there are pairs.

    One that no release can run has an empty axis, and all of them in `older`. `within` narrows the
    releases. `main` is left to `matrix`: it is a different commit every day.
    """
    found = []
    for axis in axes(case, environments):
        points = [one for one in axis if environments[one.environment].source is not Source.MAIN]
        pairs = any(environments[one.environment].source is Source.PAIR for one in points)
        chosen = [one for one in points if within is None or pairs or one.label in within]
        found.append(_along(case, wanted, environments, chosen, runs=not pairs))
    return tuple(one for one in found if one.axis or one.older)


def _along(
    case: Case,
    wanted: Wanted,
    environments: Mapping[str, Environment],
    points: list[Point],
    *,
    runs: bool,
) -> Search:
    reasons = {one: obstacles(case, environments[one.environment], wanted.device) for one in points}
    axis = tuple(one for one in points if not reasons[one])
    apart = [
        (one, Apart(label=one.label, reason="; ".join(reasons[one])))
        for one in points
        if reasons[one]
    ]
    first = points.index(axis[0]) if axis else len(points)
    return Search(
        case=case,
        wanted=wanted,
        axis=axis,
        sought=Sought(
            edge=wanted.edge,
            hints=tuple(_hints(case, wanted, environments, axis)),
            every=wanted.every,
        ),
        older=tuple(why for one, why in apart if points.index(one) < first),
        left_out=tuple(why for one, why in apart if points.index(one) > first),
        runs=runs,
    )


def _hints(
    case: Case, wanted: Wanted, environments: Mapping[str, Environment], axis: Axis
) -> Iterator[int]:
    """Yield both sides of the first change that the case expects: they are asked early."""
    said: dict[int, Answer] = {}
    for place, point in enumerate(axis):
        cell = Cell(
            case.name, wanted.workaround, point.environment, wanted.precision, wanted.device
        )
        entry = expected(case, cell, environments[point.environment])
        said[place] = Answer.NO if entry is None else Answer.YES
    first = next((one for one in changes(said) if one.edge is wanted.edge), None)
    if first is not None:
        yield from (first.at, first.before)


def failing_precisions(case: Case, workaround: str) -> tuple[Precision, ...]:
    """Return the precisions in which a case says that it, or a workaround of it, fails."""
    named = {
        precision
        for entry in case.block.fails
        if workaround in entry.workarounds or EVERY in entry.workarounds
        for precision in entry.precisions
    }
    return tuple(precision for precision in Precision if precision in named)
