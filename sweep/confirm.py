"""Findings, measured again before they are reported: alone, and with other weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from repromatrix.runner.errors import Interrupted
from repromatrix.runner.evidence.swept.changes import Found, Kind, ProbeChange
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.records import ProbeKey
from repromatrix.runner.model.case import Case
from repromatrix.sweep.cells import probe_case, records
from repromatrix.sweep.findings import SweepFinding, changes
from repromatrix.sweep.measure import SweepRunner
from repromatrix.sweep.recipe_files import ModelRecipe

_SEEDS = (0, 1)
_EACH = 2
"""Architectures of a finding that are asked again."""


def measure_again(
    asked: Iterable[tuple[Sequence[SweepFinding], Sequence[str]]],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
) -> None:
    """Measure what confirms findings of several pairs of releases, in one run.

    An environment then starts once, and not for every pair and seed. Raises Interrupted.
    """
    by_release: defaultdict[str, dict[str, Case]] = defaultdict(dict)
    for found, sides in asked:
        for seed in _SEEDS:
            cases = _alone(found, recipes, seed)
            for name in sides:
                by_release[name] |= cases
    _measure({name: cases for name, cases in by_release.items() if cases}, runner)


def confirmed(
    found: Sequence[SweepFinding],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: Sequence[str],
) -> tuple[SweepFinding, ...]:
    """Return the findings that come again in a process of their own, with both seeds.

    `sides` are the two releases of changes, or the one on which something does not hold. Of each
    finding two architectures are asked; one that agrees is enough. Raises Interrupted: what was not
    asked again is neither confirmed nor denied.
    """
    kept = [*found]
    for again in _again(found, runner, recipes, sides):
        before, after = again[sides[0]], again[sides[-1]]
        now = {change.after.key: change.kind for change in changes(before, after)}
        if len(sides) == 1:
            now = {key: Kind.BROKEN for key, record in after.items() if record.status.is_bad}
        kept = [
            finding
            for finding in kept
            if any(now.get(key) is finding.kind for key in _representatives(finding))
        ]
    return tuple(kept)


def _again(
    found: Sequence[SweepFinding],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: Sequence[str],
) -> Iterable[dict[str, Found]]:
    """Yield what releases were found to do with each seed, each probe in its own process."""
    for seed in _SEEDS:
        cases = _alone(found, recipes, seed)
        if cases:
            _measure(dict.fromkeys(sides, cases), runner)
        yield {name: records(runner.rows(name, cases)) for name in sides}


def _alone(
    found: Iterable[SweepFinding], recipes: Mapping[str, ModelRecipe], seed: int
) -> dict[str, Case]:
    """Return the scripts that show findings again, each probe in its own process."""
    by_name = {probe.name: probe for probe in PROBES}
    wanted = {key for finding in found for key in _representatives(finding)}
    # Any probe says whether an architecture is built.
    keys = sorted({(key.kind, by_name.get(key.probe, PROBES[0])) for key in wanted})
    cases = (
        probe_case(recipes[kind], probe.family, [probe], seed, alone=True) for kind, probe in keys
    )
    return {case.name: case for case in cases}


def _measure(by_release: Mapping[str, Mapping[str, Case]], runner: SweepRunner) -> None:
    if by_release and runner.measure(by_release).interrupted:
        raise Interrupted


def _representatives(finding: SweepFinding) -> list[ProbeKey]:
    """Return a probe each of the first architectures of a finding."""
    by_kind: dict[str, ProbeChange] = {
        change.after.key.kind: change for change in reversed(finding.changes)
    }
    return [by_kind[kind].after.key for kind in finding.kinds[:_EACH]]
