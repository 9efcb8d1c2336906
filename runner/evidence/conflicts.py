"""What several machines say of the very same thing, one row for each thing, and told in words.

Two machines may see different things in one cell. Then none is taken for the truth: the cell is
unstable, with every side named, until it is measured here and that is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repromatrix.runner.evidence.answering import about, answering_row
from repromatrix.runner.model.observation import LOCAL, MERGED, Observation
from repromatrix.runner.model.outcomes import Exercised

_HEADLINE = 100


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
    """Return the row that answers for several about one thing, whether it is current or not."""
    return answering_row(rows, lambda _: True)


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
