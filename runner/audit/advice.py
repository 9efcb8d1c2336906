"""The newest release on which all chosen cases pass, and a specifier that cites its exclusions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from repromatrix.runner.audit.hits import count_of_any_model, says_on
from repromatrix.runner.audit.known import KnownEvidence
from repromatrix.runner.audit.questions import AuditQuestion, Says, Spot, named
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import TRANSFORMERS

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
        return bool(self.passing) and not self.failing and not self.unknown

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
    """A failing cell for each of the releases; where none fails, the passing cells next to them."""

    @property
    def failing(self) -> bool:
        """Whether the cells that it cites fail on what it keeps out."""
        return any(release.failing for release in self.releases)


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The answer of `advise`."""

    question: AuditQuestion
    spots: tuple[Spot, ...]
    by_shared_code: Mapping[str, tuple[str, ...]]
    """The cases that ran none of the models that were asked for, and the families that they ran."""
    without_case: tuple[str, ...]
    """The models that were asked for and that no case is about."""
    of_any_model: int
    """How many of the cases are about any model, where models were asked for."""
    newest: ReleaseStanding | None
    specifier: str
    """For transformers; empty where no release passes all."""
    within: tuple[str, ...]
    """The releases that the specifier allows: each was measured to pass."""
    exclusions: tuple[Exclusion, ...]
    undecided: tuple[ReleaseStanding, ...]
    """Releases newer than the newest good one that only lack evidence, oldest first."""
    standings: tuple[ReleaseStanding, ...]
    apart: tuple[ReleaseStanding, ...]
    """The stacks and pairs of cases that no release by itself can run."""
    packages: Mapping[str, str]
    """Other packages that the chosen cases name, in their versions on the newest good release."""
    contradicted: tuple[Observation, ...]
    """Failing cells of releases that the specifier allows, with other versions of `packages`."""
    torch: tuple[str, ...]
    python: tuple[str, ...]
    snapshot: Snapshot | None
    """What it rests on; None where nothing was published."""

    @property
    def code(self) -> ExitCode:
        """The exit code of the answer."""
        if self.newest is not None:
            return ExitCode.AS_EXPECTED
        return ExitCode.UNDECIDED if self.undecided else ExitCode.UNEXPECTED


def advise(known: KnownEvidence, question: AuditQuestion) -> Advice:
    """Return the newest release on which all chosen cases pass; unknown is not a pass."""
    cases = question.chosen(known.cases)
    spots = tuple(Spot(case.name, name) for case in cases for name in question.precisions)
    standings = tuple(_standings(known.releases(), spots, known, question))
    good = [place for place, standing in enumerate(standings) if standing.good]
    newest = standings[good[-1]] if good else None
    block = _block(good)
    exclusions = tuple(_exclusions(standings, block, known, question))
    specifier = ",".join(exclusion.clause for exclusion in exclusions)
    torch, python = known.ran_on(question.device)
    return Advice(
        question=question,
        spots=spots,
        by_shared_code=question.by_shared_code(known.cases),
        without_case=tuple(question.without_case(known.cases)),
        of_any_model=count_of_any_model(question, known),
        newest=newest,
        specifier=specifier,
        within=tuple(standings[place].release for place in good if place in block),
        exclusions=exclusions,
        undecided=tuple(each for each in standings[block.stop :] if each.undecided),
        standings=standings,
        apart=tuple(_apart(spots, known, question)),
        packages=_packages(newest, cases, known),
        contradicted=tuple(_contradicted(specifier, cases, known, question)),
        torch=torch,
        python=python,
        snapshot=known.snapshot,
    )


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
    block: range,
    known: KnownEvidence,
    question: AuditQuestion,
) -> Iterator[Exclusion]:
    if not block:
        return
    first, last = standings[block.start], standings[block.stop - 1]
    older, newer = standings[: block.start][-1:], standings[block.stop : block.stop + 1]

    def exclusion(
        clause: str, releases: Sequence[ReleaseStanding], *neighbours: ReleaseStanding
    ) -> Exclusion:
        cited = [(each, each.failing[0]) for each in releases if each.failing]
        cited = cited or [(each, each.passing[0]) for each in neighbours]
        rows = tuple(known.row(cell(each.release, spot)) for each, spot in cited)
        return Exclusion(clause=clause, releases=tuple(releases), cites=rows)

    def cell(release: str, spot: Spot) -> Cell:
        environment = with_extras(release, known.cases[spot.case].extras)
        return Cell(spot.case, PLAIN, environment, spot.precision, question.device)

    if len(block) == 1:
        yield exclusion(f"=={first.release}", [*older, *newer], first)
        return
    yield exclusion(f">={first.release}", older, first)
    inside = standings[block.start : block.stop]
    for clause, bad in _holes(inside, standings):
        place = inside.index(bad[0])
        before = next(each for each in reversed(inside[:place]) if each.good)
        after = next(each for each in inside[place:] if each.good)
        yield exclusion(clause, bad, before, after)
    yield exclusion(f"<={last.release}", newer, last)


def _holes(
    inside: Sequence[ReleaseStanding], standings: Sequence[ReleaseStanding]
) -> Iterator[tuple[str, Sequence[ReleaseStanding]]]:
    """Yield a clause for each minor line without a good release, and for each other bad one."""

    def minor_line(standing: ReleaseStanding) -> str:
        version = Version(standing.release)
        return f"{version.major}.{version.minor}"

    lines_with_good = {minor_line(standing) for standing in standings if standing.good}
    for line, group in groupby(inside, key=minor_line):
        bad = [standing for standing in group if not standing.good]
        if bad and line not in lines_with_good:
            yield f"!={line}.*", bad
        else:
            yield from ((f"!={standing.release}", [standing]) for standing in bad)
