"""Evidence with its meaning: every observation beside its expectation and verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.judging.currency import is_current
from runner.judging.expectations import expected, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.model.case import Case, Failure
    from runner.model.cell import Environment
    from runner.model.observation import Observation
    from runner.model.outcomes import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One observation, what was expected of it, what it means, and whether it is out of date."""

    seen: Observation
    entry: Failure | None
    verdict: Verdict
    stale: bool


def judge_all(
    seen: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[Judged, ...]:
    """Judge every observation whose case and environment still exist."""
    return tuple(
        _judge(row, cases[row.cell.case], environments[row.cell.environment])
        for row in seen
        if row.cell.case in cases and row.cell.environment in environments
    )


def _judge(row: Observation, case: Case, environment: Environment) -> Judged:
    entry = expected(case, row.cell, environment)
    stale = row.outcome.was_run and not is_current(row, case, environment)
    return Judged(seen=row, entry=entry, verdict=judge(entry, row), stale=stale)
