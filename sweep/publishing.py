"""Merge this machine's store of the sweep into the published history."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from repromatrix.runner.evidence.swept.changes import Found, change_of, same_outcome, what
from repromatrix.runner.evidence.swept.history import (
    Architecture,
    ProbeRun,
    SweepHistory,
    SweptRelease,
)
from repromatrix.runner.evidence.swept.probes import BUILD, PROBES, WEIGHTS
from repromatrix.runner.evidence.swept.published import (
    BAD_IN_16_BIT,
    BAD_IN_FP32,
    PublishedFinding,
    RefusedType,
)
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.observation import Observation, signature
from repromatrix.runner.text import shorten
from repromatrix.sweep.between import lacking
from repromatrix.sweep.cells import chosen_probes, code_of, kind_and_probes, probe_cases, records
from repromatrix.sweep.confirm import confirmed, measure_again
from repromatrix.sweep.findings import SweepFinding, bad, changes, findings
from repromatrix.sweep.making import SweepScope, refused_types
from repromatrix.sweep.measure import SweepRunner, recipes_there
from repromatrix.sweep.recipe_files import ModelRecipe

_SIZES = 3.0
"""How many times another a difference may be that is published as one with it."""
_Sides = tuple[str, str]
"""An older release, or nothing, and a release."""
_LONGEST = 200
_REMADE = "its recipe was made anew, and is not measured on every release yet"


@dataclass(frozen=True, kw_only=True)
class MergedHistory:
    """The published history with what this machine measured."""

    history: SweepHistory
    fresh: Mapping[str, frozenset[str]]
    """Releases with answers of this machine, and the probes that it ran on each."""
    incomplete: Mapping[str, int]
    """Releases that were begun: how many cells lack. They stay as they were published."""
    old: frozenset[str]
    """Architectures of which stands what an earlier recipe showed."""


class MeasuredRelease(NamedTuple):
    """What this machine measured of one release."""

    release: SweptRelease
    found: Found
    """What it was found to do, of the architectures that are whole."""
    lacking: int
    """Cells of architectures that were not measured; 0 where the release is whole."""
    every: Found = MappingProxyType({})
    """The same of all architectures."""
    ran: frozenset[ProbeKey] = frozenset()
    """What was measured, whether it was found or not, as of what is not built."""
    recipes: tuple[ModelRecipe, ...] = ()
    """Those of the release."""

    def has_all(self, kind: str, probes: Iterable[str]) -> bool:
        """Say whether probes were run on an architecture."""
        return all(ProbeKey(kind, probe) in self.ran for probe in probes)

    @property
    def probes(self) -> frozenset[str]:
        """The probes that were run."""
        return frozenset(_names_but(self.release.lacking))


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
    with `gaps` any architecture is, as while they are measured. A probe that is new on a published
    release was run on all architectures that were.
    Summaries of outputs are compared with those that are published already, which other hardware
    may have computed: the tolerance is wider than what that changes.
    """
    old = _still_old(mine, names, recipes, earlier)
    joined = {name: _joined(one, earlier, old) for name, one in mine.items()}
    kept = {
        name: one
        for name, one in joined.items()
        if not one.lacking or _may_lack(one.release, earlier.releases.get(name))
    }
    line = _line(names, kept, recipes, earlier, old)
    if not gaps and (open_ := lacking(line, names).keys() & kept.keys()):
        kept = {name: one for name, one in kept.items() if not one.lacking or name not in open_}
        line = _line(names, kept, recipes, earlier, old)
    return MergedHistory(
        history=line,
        fresh={name: mine[name].probes for name in kept},
        incomplete={name: one.lacking for name, one in joined.items() if name not in kept},
        old=old,
    )


def _still_old(
    mine: Mapping[str, MeasuredRelease],
    names: Sequence[str],
    recipes: Mapping[str, ModelRecipe],
    earlier: SweepHistory,
) -> frozenset[str]:
    """Return the architectures whose recipe was made anew, but not measured on every release.

    Outputs of two recipes cannot be compared: what is published of them stays until it can be
    replaced on the whole line.
    """
    place = {name: at for at, name in enumerate(names)}
    old: set[str] = set()
    for kind, one in earlier.architectures.items():
        if not one.recipe or kind not in recipes or one.recipe == recipes[kind].digest:
            continue
        home = place[recipes[kind].home]
        for name, known in earlier.releases.items():
            has = known.ran(kind) and (bool(known.chosen) or place[name] >= home)
            if has and not (name in mine and mine[name].has_all(kind, _names_but(known.lacking))):
                old.add(kind)
    return frozenset(old)


def _joined(mine: MeasuredRelease, earlier: SweepHistory, old: frozenset[str]) -> MeasuredRelease:
    """Return what was measured of a release, with what is published of the rest of it.

    That stands where the same environment ran it with the code of today, which of a release
    without a digest of its code is taken for granted; `lacking` counts what then is still to be
    measured.
    """
    release, known = mine.release, earlier.releases.get(mine.release.name)
    if known is None:
        return mine
    if _stands(known, release):
        return _beside(mine, known, earlier.found(known.name), old)
    others = {*_names_but(known.lacking)} - mine.probes
    again = probe_cases(mine.recipes, [one for one in PROBES if one.name in others])
    return mine._replace(lacking=mine.lacking + len(again))


def _stands(known: SweptRelease, release: SweptRelease) -> bool:
    """Say whether what is published of a release can be joined with what was measured of it."""
    is_same = known.environment == release.environment
    return is_same and known.code in {"", code_of(known.lacking)}


def _may_lack(release: SweptRelease, known: SweptRelease | None) -> bool:
    """Say whether cells of a release may lack: only if it is between others, and not joined.

    What lacks of a joined one is a new probe on some of its architectures, which would read as if
    it held there.
    """
    return known is None or (bool(known.chosen) and not _stands(known, release))


def _beside(
    mine: MeasuredRelease, known: SweptRelease, before: Found, old: frozenset[str]
) -> MeasuredRelease:
    """Return what was measured beside what stands of a release that is published.

    What is `old` keeps what is published of it, and of new probes it is unknown.
    """
    earlier = frozenset(_names_but(known.lacking))
    new = mine.probes - earlier
    ran = {key.kind for key in before}
    added = {key.kind for key in mine.ran if mine.has_all(key.kind, earlier | new)} - old - ran
    bad_builds = {
        key.kind for key, one in before.items() if key.probe == BUILD and one.status.is_bad
    }
    found = {key: one for key, one in before.items() if key.kind in old or key not in mine.ran}
    found |= {key: one for key, one in mine.every.items() if key.kind in (ran | added) - old}
    for key in [ProbeKey(kind, probe) for kind in (old & ran) - bad_builds for probe in new]:
        found[key] = ProbeRecord(key=key, status=ProbeStatus.SKIPPED, why=_REMADE)
    lacking_probes = tuple(name for name in mine.release.lacking if name not in earlier)
    joined = mine.release._replace(
        lacking=lacking_probes,
        chosen=(*known.chosen, *sorted(added)) if known.chosen else (),
        hardware=" and ".join(dict.fromkeys((known.hardware, mine.release.hardware))),
        code=code_of(lacking_probes) if known.code else "",
    )
    left = sum(not mine.has_all(kind, new) for kind in ran - bad_builds - old)
    return mine._replace(release=joined, found=found, lacking=left)


def _names_but(lacking: Iterable[str]) -> Iterator[str]:
    absent = {*lacking}
    return (probe.name for probe in PROBES if probe.name not in absent)


def _line(
    names: Sequence[str],
    mine: Mapping[str, MeasuredRelease],
    recipes: Mapping[str, ModelRecipe],
    earlier: SweepHistory,
    old: Collection[str],
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
    named = [
        (each.name, each.class_name, each.home, each.digest)
        for each in recipes.values()
        if each.name not in old
    ]
    named += [
        (one.name, one.class_name, one.home, one.recipe)
        for one in known.values()
        if one.name not in recipes or one.name in old
    ]
    return history(releases, found, sorted(named))


def told(
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    line: MergedHistory,
    earlier: Iterable[PublishedFinding],
) -> list[PublishedFinding]:
    """Return what each release of a line changed, and what is bad on the last; confirmed.

    What is about probes that were run on neither of two releases now stays as it was published,
    and so does what only an earlier recipe shows: today's would not show it again.
    Raises Interrupted.
    """
    known: defaultdict[_Sides, list[PublishedFinding]] = defaultdict(list)
    for one in earlier:
        known[one.against, one.release].append(one)
    names = [*line.history.releases]
    every: list[_Sides] = [*pairwise(names), *(("", newest) for newest in names[-1:])]
    ran = {sides: probes for sides in every if (probes := _told_by(line, *filter(None, sides)))}
    found = {sides: [*_found(line.history, sides, probes)] for sides, probes in ran.items()}
    asked = [(some, [*filter(None, sides)]) for sides in found for _, some in found[sides]]
    measure_again(asked, runner, recipes)
    rows: list[PublishedFinding] = []
    for sides in every:
        if sides not in ran:
            rows += known[sides]
            continue
        mine = [
            row
            for kind, some in found[sides]
            for row in _confirmed(kind, some, runner, recipes, sides)
        ]
        rows += _with_known(known[sides], ran[sides], mine, line.old)
    return rows


def _found(
    line: SweepHistory, sides: _Sides, probes: Collection[str]
) -> Iterator[tuple[str, Sequence[SweepFinding]]]:
    """Yield what two releases differ in, or what is bad on one, by the kind that it has there."""
    against, release = sides
    after = _of(line.found(release), probes)
    if against:
        before = _of(line.found(against), probes)
        yield "", findings(changes(before, after))
        return
    dtypes = {probe.name: probe.dtype for probe in chosen_probes(fp16=True)}
    for kind, in_16_bit in ((BAD_IN_16_BIT, True), (BAD_IN_FP32, False)):
        yield kind, bad(after, dtypes, in_16_bit=in_16_bit)


def _confirmed(
    kind: str,
    found: Sequence[SweepFinding],
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: _Sides,
) -> Iterator[PublishedFinding]:
    against, release = sides
    for finding in confirmed(found, runner, recipes, [*filter(None, sides)]):
        yield PublishedFinding(
            release,
            against,
            finding.name,
            kind or finding.kind,
            " ".join(finding.kinds),
            " ".join(finding.probes),
            shorten(what(finding.changes[0]), _LONGEST),
            finding.changes[0].telling.place,
        )


def _told_by(line: MergedHistory, *releases: str) -> frozenset[str]:
    """Return the probes that were run on some releases; each also says what is built."""
    ran = frozenset().union(*(line.fresh.get(name, ()) for name in releases))
    return ran | {BUILD} if ran else ran


def _of(found: Found, probes: Collection[str]) -> Found:
    """Return what some probes found."""
    return {key: one for key, one in found.items() if key.probe in probes}


def _with_known(
    known: Iterable[PublishedFinding],
    ran: Collection[str],
    mine: Iterable[PublishedFinding],
    old: Collection[str],
) -> Iterator[PublishedFinding]:
    """Yield the findings of a release: what is published, less what probes that `ran` found.

    One of both is of the architectures and probes of both. One that is about `old` architectures
    alone stays.
    """
    by_name = {(row.name, row.kind): row for row in mine}
    for row in known:
        others = [name for name in row.probes.split() if name not in ran]
        if {*row.architectures.split()} <= {*old}:
            others = row.probes.split()
        other = by_name.pop((row.name, row.kind), None)
        if not others:
            if other:
                yield other
        elif other is None:
            yield row._replace(probes=" ".join(others))
        else:
            yield row._replace(
                architectures=_either(row.architectures, other.architectures),
                probes=_either(" ".join(others), other.probes),
            )
    yield from by_name.values()


def _either(one: str, other: str) -> str:
    return " ".join(dict.fromkeys((*one.split(), *other.split())))


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
    if not rows:
        return None
    probes = {probe for some in ran for probe in some}
    lacking_probes = tuple(_names_but(probes))
    kinds = dict.fromkeys(asked[row.cell.case][0] for row in whole)
    release = SweptRelease(
        name,
        rows[0].provenance.environment_digest,
        rows[0].provenance.hardware,
        len(scope.makings(runner, name)),
        lacking_probes,
        (),
        tuple(kinds) if absent else (),
        "" if absent else code_of(lacking_probes),
    )
    keys = frozenset(
        ProbeKey(asked[row.cell.case][0], probe)
        for row in rows
        for probe in (BUILD, *asked[row.cell.case][1])
    )
    found, everything = _as_published(whole), _as_published(rows)
    return MeasuredRelease(release, found, len(absent), everything, keys, tuple(there))


def _as_published(rows: Iterable[Observation]) -> Found:
    """Return what cells found, so that it can be compared with what was published before."""
    return {key: one.shortened for key, one in records(rows).items()}


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


def history(
    releases: Sequence[SweptRelease],
    found: Mapping[str, Found],
    recipes: Iterable[tuple[str, ...]],
) -> SweepHistory:
    """Return the history of a line of releases, in its order.

    `recipes` are the types, classes and homes of the architectures, and the digests of recipes
    where they are known; one that no release ran is left out. Which were not run on a release is
    seen from what was found.
    """
    ran = {release.name: {key.kind for key in found[release.name]} for release in releases}
    architectures = {
        kind: Architecture(kind, class_name, home, first, *recipe)
        for kind, class_name, home, *recipe in recipes
        if (first := next((name for name, kinds in ran.items() if kind in kinds), ""))
    }
    place = {name: at for at, name in enumerate(ran)}
    keys = sorted({key for release in releases for key in found[release.name]})
    lines = {key: [(name, found[name].get(key)) for name in ran] for key in keys}
    holds = ProbeStatus.HOLDS
    outcomes = {
        key: _runs(line, lambda one: one.status is not holds) for key, line in lines.items()
    }
    numbers = {
        key: _runs(line, lambda one: one.status is holds and bool(one.summary), _same_numbers)
        for key, line in lines.items()
    }
    missing = {
        name: tuple(
            kind
            for kind, one in architectures.items()
            if place[one.first] <= place[name] and kind not in ran[name]
        )
        for name in ran
    }
    return SweepHistory(
        releases={
            one.name: one if one.chosen else one._replace(missing=missing[one.name])
            for one in releases
        },
        architectures=architectures,
        outcomes={key: runs for key, runs in outcomes.items() if runs},
        numbers={key: runs for key, runs in numbers.items() if runs},
    )


def _alike(one: ProbeRecord, other: ProbeRecord) -> bool:
    """Say whether two records can stand for each other: findings are named by what they say.

    Sizes in words may differ, and numbers by a factor of up to `_SIZES`.
    """
    if not same_outcome(one, other) or one.place != other.place:
        return False
    if one.value is None or other.value is None:
        return one.value is other.value and signature("", one.why) == signature("", other.why)
    least, most = sorted(
        math.inf if math.isnan(size) else size for size in (one.value, other.value)
    )
    return most <= _SIZES * least


def _same_numbers(before: ProbeRecord, after: ProbeRecord) -> bool:
    """Say whether two summaries are of the same weights and agree within the tolerance."""
    is_same = before.summary.get(WEIGHTS) == after.summary.get(WEIGHTS)
    return is_same and change_of(before, after) is None


def _runs(
    line: Sequence[tuple[str, ProbeRecord | None]],
    wanted: Callable[[ProbeRecord], bool],
    same: Callable[[ProbeRecord, ProbeRecord], bool] = _alike,
) -> tuple[ProbeRun, ...]:
    """Return the runs of a line; a release on which the probe was not run ends none."""
    runs: list[ProbeRun | None] = [None]
    for name, record in line:
        last = runs[-1]
        if record is None:
            continue
        if last and wanted(record) and same(last.record, record):
            runs[-1] = last._replace(last=name)
        else:
            runs.append(ProbeRun(name, name, record) if wanted(record) else None)
    return tuple(filter(None, runs))
