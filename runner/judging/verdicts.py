"""Evidence with its meaning: every observation beside its expectation and verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repromatrix.runner.judging.expectations import covering, is_current, judge, live
from repromatrix.runner.model.case import Case, Failure
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict

if TYPE_CHECKING:
    from repromatrix.runner.judging.inference import Inferred


def by_case(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group judged observations by the name of their case, in the order given."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.seen.cell.case, []).append(one)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One observation, what was expected of it, what it means, and whether it is out of date."""

    seen: Observation
    entry: Failure | None
    verdict: Verdict
    stale: bool
    inferred: Inferred | None = None
    """Where it was not run: the measured cells that it lies between, if they agree."""


def judge_all(
    seen: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[Judged, ...]:
    """Judge every observation whose case and environment still exist."""
    held: dict[tuple[str, str], tuple[Case, Environment, tuple[Failure, ...]]] = {}
    found: list[Judged] = []
    for row in seen:
        cell = row.cell
        key = (cell.case, cell.environment)
        if key not in held:
            case, environment = cases.get(cell.case), environments.get(cell.environment)
            if case is None or environment is None:
                continue
            held[key] = case, environment, live(case, environment)
        case, environment, entries = held[key]
        entry = covering(entries, cell)
        stale = row.outcome.was_run and not is_current(row, case, environment)
        found.append(Judged(seen=row, entry=entry, verdict=judge(entry, row), stale=stale))
    return tuple(found)
