"""Cells that nobody ran between two measured ones that agree: what may be taken for granted. Pure.

What is inferred stays a cell that was not run: it is drawn and counted apart, and no evidence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from repromatrix.runner.judging.axes import Axis, axes
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.outcomes import Outcome, Verdict

if TYPE_CHECKING:
    from repromatrix.runner.judging.verdicts import Judged


class Inferred(NamedTuple):
    """The two measured environments that a cell lies between, and what both of them did."""

    older: str
    newer: str
    outcome: Outcome


Along = dict[str, int]
"""Environment to place among the judged, of one variant in one precision on one device."""


def infer(
    judged: Sequence[Judged], cases: Mapping[str, Case], environments: Mapping[str, Environment]
) -> tuple[Judged, ...]:
    """Return the judged, those that were not run saying what they can be inferred from, if so.

    It can where the nearest measured neighbours of its release line, on both sides, are current,
    did the same in the same way as expected, and everything between them is expected to as well.
    """
    found = list(judged)
    for name, every in _series(judged).items():
        lines = _lines(cases[name], environments)
        for along in every:
            for place, inferred in _between(lines, along, judged):
                found[place] = dataclasses.replace(judged[place], inferred=inferred)
    return tuple(found)


def _series(judged: Sequence[Judged]) -> dict[str, Iterable[Along]]:
    """Arrange the cases in which something was not run: the others have nothing to infer."""
    open_ = {one.seen.cell.case for one in judged if _is_blank(one)}
    found: dict[str, dict[tuple[object, ...], Along]] = {name: {} for name in open_}
    for place, one in enumerate(judged):
        cell = one.seen.cell
        if cell.case in open_:
            key = cell.workaround, cell.precision, cell.device
            found[cell.case].setdefault(key, {})[cell.environment] = place
    return {name: every.values() for name, every in found.items()}


def _lines(
    case: Case, environments: Mapping[str, Environment]
) -> tuple[tuple[Axis, frozenset[str]], ...]:
    """Return each axis of pinned environments with those that are inferred along it.

    A release stands among the pairs that are laid on it, but is inferred along releases alone.
    """
    every = [
        tuple(point for point in axis if environments[point.environment].source.has_lock)
        for axis in axes(case, environments)
    ]
    return tuple(
        (
            axis,
            frozenset(
                point.environment
                for point in axis
                if (environments[point.environment].source is Source.PAIR) == (at > 0)
            ),
        )
        for at, axis in enumerate(every)
    )


def _between(
    lines: Iterable[tuple[Axis, frozenset[str]]], along: Along, judged: Sequence[Judged]
) -> Iterator[tuple[int, Inferred]]:
    for axis, own in lines:
        gap: list[int] = []
        before: Judged | None = None
        for point in axis:
            place = along.get(point.environment)
            one = None if place is None else judged[place]
            if one is None or place is None or _says_nothing(one):
                continue
            if _is_blank(one):
                gap.append(place)
                continue
            if before is not None and _agree(before, one, [judged[left] for left in gap]):
                said = Inferred(_name(before), _name(one), one.seen.outcome)
                yield from ((left, said) for left in gap if _name(judged[left]) in own)
            before, gap = one, []


def _name(one: Judged) -> str:
    return one.seen.cell.environment


def _is_blank(one: Judged) -> bool:
    """Say whether nobody tried: what was refused is stored as not run, and must be seen."""
    return one.seen.outcome is Outcome.NOT_RUN and not one.seen.provenance.run


def _says_nothing(one: Judged) -> bool:
    """Say whether a cell stands outside the line: it cannot be run there, or what ran is stale."""
    return one.stale or one.seen.outcome in {Outcome.NOT_APPLICABLE, Outcome.UNBUILDABLE}


def _agree(before: Judged, behind: Judged, gap: Sequence[Judged]) -> bool:
    return (
        before.verdict is Verdict.AS_EXPECTED
        and behind.verdict is Verdict.AS_EXPECTED
        and before.seen.kind == behind.seen.kind
        and all(one.entry == before.entry for one in (*gap, behind))
    )
