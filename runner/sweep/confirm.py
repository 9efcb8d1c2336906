"""Findings, measured again before they are told: alone, and with other weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repromatrix.runner.model.case import Case
from repromatrix.runner.sweep.cells import probe_case
from repromatrix.runner.sweep.child.probes.names import PROBES
from repromatrix.runner.sweep.findings import Kind, ProbeChange, SweepFinding, changes
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
    """Return the findings that come again in a process of their own, with both seeds.

    Of each finding two architectures are asked, on both releases; one that agrees is enough.
    """
    by_name = {probe.name: probe for probe in PROBES}
    asked = {finding.name: _representatives(finding) for finding in found}
    keys = {change.after.key for some in asked.values() for change in some}
    kept: dict[str, set[int]] = {finding.name: set() for finding in found}
    for seed in _SEEDS:
        cases = [
            probe_case(recipes[kind], probe.family, [probe], seed, alone=True)
            for kind, probe in sorted((key.kind, by_name[key.probe]) for key in keys)
        ]
        again = _changes(runner, {case.name: case for case in cases}, sides)
        for finding in found:
            if any(again.get(change.after.key) is finding.kind for change in asked[finding.name]):
                kept[finding.name].add(seed)
    return tuple(finding for finding in found if kept[finding.name] == {*_SEEDS})


def _representatives(finding: SweepFinding) -> list[ProbeChange]:
    """Return a change each of the first architectures of a finding."""
    by_kind = {change.after.key.kind: change for change in reversed(finding.changes)}
    return [by_kind[kind] for kind in finding.kinds[:_EACH]]


def _changes(
    runner: SweepRunner, cases: Mapping[str, Case], sides: tuple[str, str]
) -> dict[ProbeKey, Kind]:
    runner.measure(dict.fromkeys(sides, cases))
    before, after = (records(runner.rows(name, cases)) for name in sides)
    return {change.after.key: change.kind for change in changes(before, after)}
