"""Whether a case is proven: seen to fail as described somewhere, and to pass somewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.judging.expectations import described
from runner.model.outcomes import Exercised, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.judging.verdicts import Judged


def lacking(name: str, judged: Iterable[Judged]) -> tuple[str, ...]:
    """Name what a case still lacks to be proven; nothing when it is."""
    rows = [
        one
        for one in judged
        if one.seen.cell.case == name
        and not one.seen.unstable
        and not one.stale
        and one.seen.exercised is not Exercised.NO
    ]
    lacks = []
    if not any(one.entry is not None and described(one.entry, one.seen) for one in rows):
        lacks.append("no measured cell fails as described")
    if not any(one.seen.outcome is Outcome.PASSES for one in rows):
        lacks.append("no measured cell passes")
    return tuple(lacks)
