"""What this machine's store holds of the sweep, merged into the published history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from repromatrix.runner.sweep.baseline import sources_of
from repromatrix.runner.sweep.between import lacking
from repromatrix.runner.sweep.cells import chosen_probes, kind_and_probes, probe_cases
from repromatrix.runner.sweep.child.probes.names import PROBES
from repromatrix.runner.sweep.confirm import confirmed, confirmed_bad
from repromatrix.runner.sweep.findings import Found, SweepFinding, bad, changes, findings
from repromatrix.runner.sweep.history import SweepHistory, SweptRelease, history
from repromatrix.runner.sweep.making import SweepScope, refused_types
from repromatrix.runner.sweep.measure import SweepRunner, recipes_there
from repromatrix.runner.sweep.published import (
    BAD_IN_16_BIT,
    BAD_IN_FP32,
    PublishedFinding,
    RefusedType,
)
from repromatrix.runner.sweep.recipes import ModelRecipe
from repromatrix.runner.sweep.records import records
from repromatrix.runner.sweep.render import what
from repromatrix.runner.text import shorten

_LONGEST = 200


@dataclass(frozen=True, kw_only=True)
class MergedHistory:
    """The published history with what this machine measured."""

    history: SweepHistory
    fresh: tuple[str, ...]
    """Releases whose answers are this machine's."""
    incomplete: Mapping[str, int]
    """Releases that were begun: how many cells lack. They stay as they were published."""


class MeasuredRelease(NamedTuple):
    """What this machine measured of one release."""

    release: SweptRelease
    found: Found
    lacking: int
    """Cells of architectures that were not measured; 0 where the release is whole."""


def measured(
    runner: SweepRunner, scope: SweepScope, names: Iterable[str]
) -> dict[str, MeasuredRelease]:
    """Return what this machine measured of some releases, by their names."""
    return {name: one for name in names if (one := _measured(runner, name, scope))}


def merged(
    mine: Mapping[str, MeasuredRelease],
    names: Sequence[str],
    recipes: Mapping[str, ModelRecipe],
    earlier: SweepHistory,
    *,
    gaps: bool = False,
) -> MergedHistory:
    """Return the published history, each release replaced of which all cells were measured.

    `names` are all releases, in their order.
    Of a release between others it is enough that the architectures were on which those differ;
    with `gaps` any architecture is, as while they are measured.
    Summaries of outputs are compared with those that are published already, which other hardware
    may have computed: the tolerance is wider than what that changes.
    """
    kept = {
        name: one
        for name, one in mine.items()
        if not one.lacking or name not in earlier.releases or earlier.releases[name].chosen
    }
    line = _line(names, kept, recipes, earlier)
    if not gaps and (open_ := lacking(line, names).keys() & kept.keys()):
        kept = {name: one for name, one in kept.items() if not one.lacking or name not in open_}
        line = _line(names, kept, recipes, earlier)
    return MergedHistory(
        history=line,
        fresh=tuple(kept),
        incomplete={name: one.lacking for name, one in mine.items() if name not in kept},
    )


def _line(
    names: Sequence[str],
    mine: Mapping[str, MeasuredRelease],
    recipes: Mapping[str, ModelRecipe],
    earlier: SweepHistory,
) -> SweepHistory:
    releases: list[SweptRelease] = []
    found: dict[str, Found] = {}
    for name in names:
        if name in mine:
            found[name] = mine[name].found
            releases.append(mine[name].release)
        elif name in earlier.releases:
            found[name] = earlier.found(name)
            releases.append(earlier.releases[name])
    known = {one.name: one for one in earlier.architectures.values()}
    named = [(each.name, each.class_name, each.home) for each in recipes.values()]
    named += [
        (one.name, one.class_name, one.home) for one in known.values() if one.name not in recipes
    ]
    return history(releases, found, sorted(named))


def told(
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    line: MergedHistory,
    earlier: Iterable[PublishedFinding],
) -> list[PublishedFinding]:
    """Return what each release of a line changed, and what is bad on the last; confirmed.

    What stands between two releases of which neither was measured now stays as it was published.
    """
    known: defaultdict[tuple[str, str], list[PublishedFinding]] = defaultdict(list)
    for one in earlier:
        known[one.against, one.release].append(one)
    rows: list[PublishedFinding] = []
    names = [*line.history.releases]
    for against, release in pairwise(names):
        if not {against, release} & {*line.fresh}:
            rows += known[against, release]
            continue
        before, after = line.history.found(against), line.history.found(release)
        sides = (against, release)
        some = confirmed(findings(changes(before, after)), runner, recipes, sides)
        rows += [_row(finding, release, against) for finding in some]
    for newest in names[-1:]:
        if newest not in line.fresh:
            rows += known["", newest]
            continue
        dtypes = {probe.name: probe.dtype for probe in chosen_probes(fp16=True)}
        for kind, in_16_bit in ((BAD_IN_16_BIT, True), (BAD_IN_FP32, False)):
            live = bad(line.history.found(newest), dtypes, in_16_bit=in_16_bit)
            rows += [
                _row(finding, newest, "")._replace(kind=kind)
                for finding in confirmed_bad(live, runner, recipes, newest)
            ]
    return rows


def _row(finding: SweepFinding, release: str, against: str) -> PublishedFinding:
    return PublishedFinding(
        release,
        against,
        finding.name,
        finding.kind,
        " ".join(finding.kinds),
        " ".join(finding.probes),
        shorten(what(finding.changes[0]), _LONGEST),
        finding.changes[0].telling.place,
    )


def _measured(runner: SweepRunner, name: str, scope: SweepScope) -> MeasuredRelease | None:
    """Return what a release was found to do, of the architectures that are whole; None of none.

    Families of probes that were not begun on it are left out; one that was has to be whole.
    """
    there = recipes_there(scope.recipes, name, runner.project)
    every = probe_cases(there, scope.probes)
    rows = runner.rows(name, every)
    asked = {case: kind_and_probes(case) for case in every}
    ran = {asked[row.cell.case][1] for row in rows}
    measured = {row.cell.case for row in rows}
    absent = [case for case in every if asked[case][1] in ran and case not in measured]
    broken = {asked[case][0] for case in absent}
    whole = [row for row in rows if asked[row.cell.case][0] not in broken]
    if not whole:
        return None
    probes = {probe for some in ran for probe in some}
    lacking_probes = tuple(probe.name for probe in PROBES if probe.name not in probes)
    kinds = dict.fromkeys(asked[row.cell.case][0] for row in whole)
    release = SweptRelease(
        name,
        rows[0].provenance.environment_digest,
        rows[0].provenance.hardware,
        len(scope.makings(runner, name)),
        lacking_probes,
        (),
        tuple(kinds) if absent else (),
        "" if absent else sources_of(there, lacking_probes),
    )
    return MeasuredRelease(release, records(whole), len(absent))


def refused(
    runner: SweepRunner,
    scope: SweepScope,
    line: MergedHistory,
    earlier: Iterable[RefusedType],
) -> tuple[RefusedType, ...]:
    """Return what has no recipe, each as the last release said that tried it."""
    known = {one.architecture: one for one in earlier if one.architecture not in scope.recipes}
    for name in line.fresh:
        known |= {one.architecture: one for one in refused_types(runner, name, scope)}
    return tuple(known.values())
