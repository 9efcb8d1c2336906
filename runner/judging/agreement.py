"""Several rows about the very same thing: whether they agree, and which of them answers.

Two machines may see different things in one cell. Then none is taken for the truth: the cell is
unstable, with every side named, until it is measured here and that is confirmed.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from runner.model.observation import LOCAL, MERGED
from runner.model.outcomes import Exercised, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.model.observation import Observation

_ORDER = {outcome: number for number, outcome in enumerate(Outcome)}
_HEADLINE = 100

Says = tuple[str, str, bool, str]


def says(row: Observation) -> Says:
    """Return what a row says, be it seen where it may; two that differ deny each other."""
    outcome, signature = row.kind
    return outcome.value, signature, row.unstable, row.exercised.value


def about(row: Observation) -> tuple[object, ...]:
    """Return what a row is about: the cell, the case, the pins and the way of running."""
    ran = row.provenance
    return (*row.cell, ran.case_digest, ran.environment_digest, ran.protocol)


def answers(rows: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return one row for everything that rows are about, in the order of the runs.

    That a cell could not be run elsewhere says nothing where it was run.
    """
    ran = {row.cell for row in rows if row.outcome.was_run}
    groups: dict[tuple[object, ...], list[Observation]] = {}
    for row in rows:
        if row.source != MERGED or row.outcome.was_run or row.cell not in ran:
            groups.setdefault(about(row), []).append(row)
    return tuple(sorted(map(answer, groups.values()), key=lambda row: row.provenance.run))


def answer(rows: Sequence[Observation]) -> Observation:
    """Return the row that answers for several about one thing, at most one of them from here.

    Of rows that deny each other the worst one answers, as unstable, and names the others. What a
    machine had no memory for, or could not build, denies nothing.
    """
    own = next((row for row in rows if row.source == LOCAL), None)
    if len(rows) == 1 or (own is not None and own.outcome is Outcome.NOT_RUN):
        return own or rows[0]  # only a refusal is stored as not run: it must be seen
    judging = [row for row in rows if row.outcome.was_run and not row.outcome.blames_machine]
    found: dict[Says, Observation] = {}
    for row in sorted(judging or rows, key=lambda row: row.source != LOCAL):
        found.setdefault(says(row), row)
    worst, *others = sorted(found.values(), key=_worst_first)
    if not judging or not others:
        return worst
    return dataclasses.replace(worst, unstable=True, sides=(worst, *others))


def _worst_first(row: Observation) -> tuple[bool, int, Says]:
    return not row.outcome.is_failure, _ORDER[row.outcome], says(row)


def dispute(row: Observation) -> str:
    """Return who says what where a cell is disputed; nothing where it is not."""
    return "; ".join(map(side, row.sides))


def side(row: Observation) -> str:
    """Return what a row says and what it was seen on, in words."""
    detail = f": {row.failed.headline[:_HEADLINE]}" if row.failed else ""
    flags = ", unstable" * row.unstable + ", not exercised" * (row.exercised is Exercised.NO)
    ran = row.provenance
    where = "here, " if row.source == LOCAL else ""
    return f"{row.outcome}{flags}{detail} ({where}{ran.hardware}, torch {ran.torch_build})"


def disputed(rows: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return the rows whose cell is said otherwise by another machine."""
    return tuple(row for row in rows if row.sides)
