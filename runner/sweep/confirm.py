"""Findings, measured again before they are told: alone, and with other weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from repromatrix.runner.sweep.cells import probe_case
from repromatrix.runner.sweep.child.probes.names import PROBES
from repromatrix.runner.sweep.findings import Found, ProbeChange, SweepFinding, changes
from repromatrix.runner.sweep.measure import SweepRunner
from repromatrix.runner.sweep.recipes import ModelRecipe
from repromatrix.runner.sweep.records import ProbeKey, records

_SEEDS = (0, 1)
_EACH = 2
"""Architectures of a finding that are asked again."""


def confirmed(
    found: Sequence[SweepFinding],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: tuple[str, str],
) -> tuple[SweepFinding, ...]:
    """Return the changes that come again in a process of their own, with both seeds.

    Of each finding two architectures are asked, on both releases; one that agrees is enough.
    """
    kept = [*found]
    for again in _again(found, runner, recipes, sides):
        before, after = (again[name] for name in sides)
        now = {change.after.key: change.kind for change in changes(before, after)}
        kept = [
            finding
            for finding in kept
            if any(now.get(key) is finding.kind for key in _representatives(finding))
        ]
    return tuple(kept)


def confirmed_bad(
    found: Sequence[SweepFinding],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    release: str,
) -> tuple[SweepFinding, ...]:
    """Return what does not hold on a release again, in a process of its own, with both seeds."""
    kept = [*found]
    for again in _again(found, runner, recipes, (release,)):
        now = {key for key, record in again[release].items() if record.status.is_bad}
        kept = [one for one in kept if not now.isdisjoint(_representatives(one))]
    return tuple(kept)


def _again(
    found: Sequence[SweepFinding],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: Sequence[str],
) -> Iterable[dict[str, Found]]:
    """Yield what releases were found to do with each seed, each probe in its own process."""
    by_name = {probe.name: probe for probe in PROBES}
    wanted = {key for finding in found for key in _representatives(finding)}
    # Any probe says whether an architecture is built.
    keys = sorted({(key.kind, by_name.get(key.probe, PROBES[0])) for key in wanted})
    for seed in _SEEDS:
        cases = {
            case.name: case
            for case in (
                probe_case(recipes[kind], probe.family, [probe], seed, alone=True)
                for kind, probe in keys
            )
        }
        if cases:
            runner.measure(dict.fromkeys(sides, cases))
        yield {name: records(runner.rows(name, cases)) for name in sides}


def _representatives(finding: SweepFinding) -> list[ProbeKey]:
    """Return a probe each of the first architectures of a finding."""
    by_kind: dict[str, ProbeChange] = {
        change.after.key.kind: change for change in reversed(finding.changes)
    }
    return [by_kind[kind].after.key for kind in finding.kinds[:_EACH]]
