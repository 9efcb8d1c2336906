"""What this machine's store holds of the sweep, merged into the published history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from repromatrix.runner.sweep.cells import chosen_probes, kind_and_probes, probe_cases
from repromatrix.runner.sweep.child.probes.names import PROBES
from repromatrix.runner.sweep.confirm import confirmed, confirmed_bad
from repromatrix.runner.sweep.findings import Found, SweepFinding, bad, changes, findings
from repromatrix.runner.sweep.history import SweepHistory, SweptRelease, history
from repromatrix.runner.sweep.making import refused_types, types_of
from repromatrix.runner.sweep.measure import SweepRunner, recipes_there, releases_of
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


def merged(
    runner: SweepRunner, recipes: Mapping[str, ModelRecipe], earlier: SweepHistory
) -> MergedHistory:
    """Return the published history, each release replaced of which all cells were measured.

    Summaries of outputs are compared with those that are published already, which other hardware
    may have computed: the tolerance is wider than what that changes.
    """
    releases: list[SweptRelease] = []
    found: dict[str, Found] = {}
    fresh: list[str] = []
    incomplete: dict[str, int] = {}
    for name in releases_of(runner.project):
        measured = _measured(runner, name, recipes)
        if isinstance(measured, int) and measured:
            incomplete[name] = measured
        if not isinstance(measured, int):
            release, found[name] = measured
            releases.append(release)
            fresh.append(name)
        elif name in earlier.releases:
            found[name] = earlier.found(name)
            releases.append(earlier.releases[name])
    known = {one.name: one for one in earlier.architectures.values()}
    named = [(each.type, each.class_name, each.home) for each in recipes.values()]
    named += [
        (one.name, one.class_name, one.home) for one in known.values() if one.name not in recipes
    ]
    return MergedHistory(
        history=history(releases, found, sorted(named)),
        fresh=tuple(fresh),
        incomplete=incomplete,
    )


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


def _measured(
    runner: SweepRunner, name: str, recipes: Mapping[str, ModelRecipe]
) -> tuple[SweptRelease, Found] | int:
    """Return what a release was found to do, or how many of its cells lack; 0 where all do.

    Families of probes that were not begun on it are left out; one that was has to be whole.
    """
    there = recipes_there(recipes, name, runner.project)
    every = probe_cases(there, chosen_probes(fp16=True))
    rows = runner.rows(name, every)
    ran = dict.fromkeys(kind_and_probes(row.cell.case)[1] for row in rows)
    cells = Counter(kind_and_probes(case)[1] for case in every)
    lacking = sum(cells[some] for some in ran) - len(rows)
    if lacking or not rows:
        return lacking
    probes = {probe for some in ran for probe in some}
    release = SweptRelease(
        name,
        rows[0].provenance.environment_digest,
        rows[0].provenance.hardware,
        len(types_of(runner, name)),
        tuple(probe.name for probe in PROBES if probe.name not in probes),
        (),
    )
    return release, records(rows)


def refused(
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    line: MergedHistory,
    earlier: Iterable[RefusedType],
) -> tuple[RefusedType, ...]:
    """Return the architectures without a recipe, each as the last release said that tried it."""
    known = {one.architecture: one for one in earlier if one.architecture not in recipes}
    for name in line.fresh:
        known |= {one.architecture: one for one in refused_types(runner, name, recipes)}
    return tuple(known.values())
