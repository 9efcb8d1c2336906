"""The releases on which a case is measured under another torch: at its changes and both ends. Pure.

What a case does between two changes it is taken to do under any torch: these releases tell most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from repromatrix.runner.judging.ranges import axes, fails
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device


def telling(
    case: Case,
    environments: Mapping[str, Environment],
    known: Mapping[Cell, Observation],
    device: Device,
) -> tuple[str, ...]:
    """Return the releases, oldest first, on both sides of what changes, and both ends.

    A change is one of outcome or signature between neighbours that were judged, in any precision,
    with or without a workaround. Both ends are those of what was judged, or of what applies.
    """
    line = _line(case, environments, device)
    series: dict[tuple[str, str], dict[str, Observation]] = {}
    for cell, row in known.items():
        if cell.case == case.name and cell.device is device and fails(row) is not None:
            series.setdefault((cell.workaround, cell.precision), {})[cell.environment] = row
    judged = [name for name in line if any(name in rows for rows in series.values())] or line
    wanted = {*judged[:1], *judged[-1:]}
    for rows in series.values():
        wanted.update(_beside_changes([name for name in line if name in rows], rows))
    return tuple(name for name in line if name in wanted)


def _line(case: Case, environments: Mapping[str, Environment], device: Device) -> list[str]:
    names = [point.environment for point in axes(case, environments)[0]]
    return [
        name
        for name in names
        if environments[name].source is Source.RELEASE
        and not obstacles(case, environments[name], device)
    ]


def _beside_changes(names: Sequence[str], rows: Mapping[str, Observation]) -> Iterable[str]:
    for older, newer in pairwise(names):
        if rows[older].kind != rows[newer].kind:
            yield from (older, newer)
