"""The release with the fewest known bugs, and a specifier that cites its exclusions."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from repromatrix.runner.audit.hits import Audit, Hit, Upgrade, audit, says_on
from repromatrix.runner.audit.known import KnownEvidence
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import AuditQuestion, Says, Spot, named
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.judging.features import FEATURES, needed, unused
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.families import exists
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS

_SKIPPED = 6
"""More releases in a row than this are not excluded one by one: the specifier ends above them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseStanding:
    """What was measured of the chosen cases on one release, stack or pair."""

    release: str
    passing: tuple[Spot, ...]
    failing: tuple[Spot, ...]
    not_applicable: tuple[Spot, ...]
    unknown: tuple[Spot, ...]

    @property
    def good(self) -> bool:
        """Whether something passes, and nothing fails or is unknown."""
        return bool(self.passing) and not self.bad

    @property
    def bad(self) -> int:
        """How many cells count against it: what is unknown may fail."""
        return len(self.failing) + len(self.unknown)

    @property
    def undecided(self) -> bool:
        """Whether more runs could make it good."""
        return bool(self.unknown) and not self.failing


@dataclass(frozen=True, kw_only=True, slots=True)
class Exclusion:
    """A clause of the specifier, and the releases that it keeps out."""

    clause: str
    releases: tuple[ReleaseStanding, ...]
    """Empty where it keeps out what was never measured."""
    cites: tuple[Observation, ...]
    """A failing cell of each release; where none is known that counts, cells next to them."""
    failing: bool
    """Whether the cells that it cites fail on what it keeps out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The answer of `advise`."""

    question: AuditQuestion
    spots: tuple[Spot, ...]
    """What counts."""
    uncounted: Mapping[str, int]
    """How many chosen cases do not count, by a feature that they need and that is not used."""
    named: ReleaseStanding | None
    """The release on which the fewest cells fail or are unknown; of several the newest."""
    there: Audit
    """What is known of it, or where none is named of the newest release."""
    near: ReleaseStanding | None
    """The best release of the minor line, else of the major one, of what somebody has."""
    ours: Audit | None
    """What is known of the same cells with what somebody has."""
    move: Upgrade | None
    """What moving from there to the named release fixes and breaks."""
    specifier: str
    """For transformers; empty where no release is named."""
    within: tuple[str, ...]
    """The releases that the specifier allows: of each as few cells fail or are unknown."""
    exclusions: tuple[Exclusion, ...]
    standings: tuple[ReleaseStanding, ...]
    apart: tuple[ReleaseStanding, ...]
    """The stacks and pairs of cases that no release by itself can run."""
    packages: Mapping[str, str]
    """Other packages that the chosen cases name, in their versions on the named release."""
    contradicted: tuple[Observation, ...]
    """Failing cells of releases that the specifier allows, with other versions of `packages`."""

    @property
    def snapshot(self) -> Snapshot | None:
        """What it rests on; None where nothing was published."""
        return self.there.snapshot

    @property
    def newest(self) -> ReleaseStanding | None:
        """The newest release on which all pass; None where there is none."""
        return self.named if self.named and self.named.good else None

    @property
    def undecided(self) -> list[ReleaseStanding]:
        """Return the releases newer than the named one that may be as good, oldest first."""
        first = self.standings.index(self.named) + 1 if self.named else 0
        most = self.named.bad if self.named else 0
        return [
            each for each in self.standings[first:] if each.unknown and len(each.failing) <= most
        ]

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The known bugs of the named release."""
        return self.there.hits if self.named else ()

    @property
    def code(self) -> ExitCode:
        """The exit code of the answer."""
        if self.newest is not None:
            return ExitCode.AS_EXPECTED
        is_open = any(standing.undecided for standing in self.standings)
        return ExitCode.UNDECIDED if is_open else ExitCode.UNEXPECTED


def advise(
    known: KnownEvidence, question: AuditQuestion, installed: Installed | None = None
) -> Advice:
    """Return the release with the fewest known bugs; what is unknown counts as one.

    Of models or features, and of what somebody has `installed`, only cases count that need nothing
    else.
    """
    chosen = question.chosen(known.cases)
    cases, uncounted = counted(chosen, question, installed)
    spots = tuple(Spot(case.name, name) for case in cases for name in question.precisions)
    standings = tuple(_standings(known.releases(), spots, known, question))
    measured = tuple(_measured(standings, question.models))
    fewest = min((each.bad for each in measured), default=0)
    good = [
        place for place, each in enumerate(standings) if each in measured and each.bad == fewest
    ]
    best = standings[good[-1]] if good else None
    block = _block(good)
    exclusions = tuple(_exclusions(standings, good, known, question))
    specifier = ",".join(exclusion.clause for exclusion in exclusions)
    asked = dataclasses.replace(question, cases=tuple(case.name for case in cases))
    there = audit(_packages_of((best or standings[-1]).release, cases, known), known, asked)
    ours = audit(installed, known, asked) if installed else None
    return Advice(
        question=question,
        spots=spots,
        uncounted=uncounted,
        named=best,
        there=there,
        near=_near(measured, ours),
        ours=ours,
        move=there.after(ours, known) if ours and best else None,
        specifier=specifier,
        within=tuple(standings[place].release for place in good if place in block),
        exclusions=exclusions,
        standings=standings,
        apart=tuple(_apart(spots, known, question)),
        packages=_packages(best, cases, known),
        contradicted=tuple(_contradicted(specifier, cases, known, question)),
    )


def _measured(
    standings: Iterable[ReleaseStanding], models: Collection[str]
) -> Iterator[ReleaseStanding]:
    """Yield the releases of which something is known and that have one of the models."""
    for standing in standings:
        if (standing.passing or standing.failing) and exists(models, standing.release):
            yield standing


def counted(
    cases: Sequence[Case], question: AuditQuestion, installed: Installed | None
) -> tuple[Sequence[Case], Mapping[str, int]]:
    """Return the cases that concern who asks, and by feature how many others there are.

    What is used was said, or is installed. All count where nothing was said, or none would.
    """
    listed = {*installed.pins, *installed.loose, TORCH} if installed else set()
    used = {*question.features}
    used |= {name for name, feature in FEATURES.items() if feature.package in listed}
    if not (question.models or used or installed):
        return cases, {}
    lacking = {case.name: unused(needed(case), used) for case in cases}
    kept = [
        case
        for case in cases
        if not lacking[case.name] and (not installed or case.packages <= listed)
    ]
    others = Counter(name for names in lacking.values() for name in names[:1])
    return (kept, dict(others.most_common())) if kept else (cases, {})


def _packages_of(release: str, cases: Sequence[Case], known: KnownEvidence) -> Installed:
    """Return the packages with which cases were measured on a release."""
    names = [release, *dict.fromkeys(with_extras(release, case.extras) for case in cases)]
    held = [known.environments[name] for name in names if name in known.environments]
    pins = {package: version for each in held for package, version in each.pins.items()}
    torch = {TORCH: known.torch} if known.torch else {}
    return Installed(what=release, form="", pins=pins | torch, markers=held[0].markers)


def _near(standings: Sequence[ReleaseStanding], ours: Audit | None) -> ReleaseStanding | None:
    """Return the best release of somebody's minor line, else of the major one, if it is better."""
    if not ours or not ours.installed.version(TRANSFORMERS):
        return None
    version = Version(ours.installed.version(TRANSFORMERS)).release
    bad = sum(len(hit.stands) for hit in ours.hits) + len(ours.unknown)
    for parts in (2, 1):
        line = [
            each for each in standings if Version(each.release).release[:parts] == version[:parts]
        ]
        best = min(reversed(line), key=lambda standing: standing.bad, default=None)
        if best and best.bad < bad:
            return best
    return None


def _standings(
    places: Sequence[str], spots: Sequence[Spot], known: KnownEvidence, question: AuditQuestion
) -> Iterator[ReleaseStanding]:
    there = says_on(places, spots, known, question.device)
    for place in places:
        groups: dict[Says, list[Spot]] = {says: [] for says in Says}
        for spot in spots:
            groups[there[spot][place]].append(spot)
        yield ReleaseStanding(
            release=place,
            passing=tuple(groups[Says.CLEAR]),
            failing=tuple(groups[Says.HITS]),
            not_applicable=tuple(groups[Says.NOT_APPLICABLE]),
            unknown=tuple(groups[Says.UNKNOWN]),
        )


def _apart(
    spots: Sequence[Spot], known: KnownEvidence, question: AuditQuestion
) -> Iterator[ReleaseStanding]:
    by_environment: dict[str, list[Spot]] = {}
    for spot in spots:
        for environment in known.only_in(known.cases[spot.case]):
            by_environment.setdefault(environment.name, []).append(spot)
    for name in known.environments:
        if name in by_environment:
            yield from _standings([name], by_environment[name], known, question)


def _packages(
    newest: ReleaseStanding | None, cases: Sequence[Case], known: KnownEvidence
) -> dict[str, str]:
    if newest is None:
        return {}
    pins = known.environments[newest.release].pins
    names = {name for case in cases for name in named(case)} - {TRANSFORMERS}
    return {name: pins[name] for name in sorted(names) if name in pins}


def _contradicted(
    specifier: str, cases: Sequence[Case], known: KnownEvidence, question: AuditQuestion
) -> Iterator[Observation]:
    """Yield the failing cells of pairs whose release is allowed.

    A release was measured with the packages of its day alone; where a case depends on another
    package too, a pair can show that the release is not enough.
    """
    allowed = SpecifierSet(specifier)
    for case in cases if specifier else ():
        for environment in known.of(case):
            release = environment.version(TRANSFORMERS)
            if environment.source is Source.PAIR and allowed.contains(release, prereleases=True):
                for precision in question.precisions:
                    cell = Cell(case.name, PLAIN, environment.name, precision, question.device)
                    if known.fails(cell):
                        yield known.row(cell)


def _block(good: Sequence[int]) -> range:
    """Return the stretch that ends in the newest good release and skips few others."""
    if not good:
        return range(0)
    start = good[-1]
    for place in reversed(good):
        if start - place > _SKIPPED + 1:
            break
        start = place
    return range(start, good[-1] + 1)


def _exclusions(
    standings: Sequence[ReleaseStanding],
    good: Sequence[int],
    known: KnownEvidence,
    question: AuditQuestion,
) -> Iterator[Exclusion]:
    block = _block(good)
    if not block:
        return
    best = {*standings[good[-1]].failing}
    first, last = standings[block.start], standings[block.stop - 1]
    older, newer = standings[: block.start][-1:], standings[block.stop : block.stop + 1]

    def exclusion(
        clause: str, releases: Sequence[ReleaseStanding], *neighbours: ReleaseStanding
    ) -> Exclusion:
        worse = (
            (each, next((s for s in each.failing if s not in best), None)) for each in releases
        )
        cited = [(each, spot) for each, spot in worse if spot]
        failing = bool(cited)
        cited = cited or [(each, (each.passing or each.failing)[0]) for each in neighbours]
        rows = tuple(known.row(cell(each.release, spot)) for each, spot in cited)
        return Exclusion(clause=clause, releases=tuple(releases), cites=rows, failing=failing)

    def cell(release: str, spot: Spot) -> Cell:
        environment = with_extras(release, known.cases[spot.case].extras)
        return Cell(spot.case, PLAIN, environment, spot.precision, question.device)

    if len(block) == 1:
        yield exclusion(f"=={first.release}", [*older, *newer], first)
        return
    yield exclusion(f">={first.release}", older, first)
    as_good = [standings[place] for place in good]
    for clause, bad in _holes(standings[block.start : block.stop], as_good):
        after = next(each for each in as_good if standings.index(each) > standings.index(bad[0]))
        yield exclusion(clause, bad, as_good[as_good.index(after) - 1], after)
    yield exclusion(f"<={last.release}", newer, last)


def _holes(
    inside: Sequence[ReleaseStanding], good: Collection[ReleaseStanding]
) -> Iterator[tuple[str, Sequence[ReleaseStanding]]]:
    """Yield a clause for each minor line without a good release, and for each other one."""

    def minor_line(standing: ReleaseStanding) -> str:
        version = Version(standing.release)
        return f"{version.major}.{version.minor}"

    lines_with_good = {*map(minor_line, good)}
    for line, group in groupby(inside, key=minor_line):
        bad = [standing for standing in group if standing not in good]
        if bad and line not in lines_with_good:
            yield f"!={line}.*", bad
        else:
            yield from ((f"!={standing.release}", [standing]) for standing in bad)
