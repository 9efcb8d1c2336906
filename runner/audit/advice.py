"""The newest release on which all chosen cases pass, and a specifier that cites its exclusions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from repromatrix.runner.audit.levels import Says, named
from repromatrix.runner.audit.questions import AuditQuestion, KnownEvidence
from repromatrix.runner.audit.upgrades import Spot, says_at
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import TRANSFORMERS

_SKIPPED = 6
"""So many releases in a row may be excluded one by one before the specifier ends above them."""


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
        """Whether something passes and nothing else is said that speaks against it."""
        return bool(self.passing) and not self.failing and not self.unknown

    @property
    def undecided(self) -> bool:
        """Whether runs could still make it good."""
        return bool(self.unknown) and not self.failing


@dataclass(frozen=True, kw_only=True, slots=True)
class Exclusion:
    """A clause of the specifier, and the releases that it keeps out."""

    clause: str
    releases: tuple[ReleaseStanding, ...]
    """Empty where it keeps out what was never measured."""
    cites: tuple[Observation, ...]
    """For each release the failing cell that speaks against it; where none does, the passing
    cells next to what it keeps out."""

    @property
    def failing(self) -> bool:
        """Whether the cells that it cites speak against what it keeps out."""
        return any(one.failing for one in self.releases)


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The answer, as a value."""

    question: AuditQuestion
    spots: tuple[Spot, ...]
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
    """What was measured in the stacks and pairs of cases that no release by itself can run."""
    packages: Mapping[str, str]
    """What else the chosen cases name, as it stood on the newest good release."""
    contradicted: tuple[Observation, ...]
    """Failing cells of releases that the specifier allows, with other versions of those."""
    torch: tuple[str, ...]
    python: tuple[str, ...]

    @property
    def code(self) -> ExitCode:
        """What the answer tells a script."""
        if self.newest is not None:
            return ExitCode.AS_EXPECTED
        return ExitCode.UNDECIDED if self.undecided else ExitCode.UNEXPECTED


def advise(known: KnownEvidence, question: AuditQuestion) -> Advice:
    """Return the newest release on which all chosen cases pass; unknown is no pass."""
    cases = question.chosen(known.cases)
    spots = tuple(Spot(case.name, one) for case in cases for one in question.precisions)
    standings = tuple(_standing(name, spots, known, question) for name in known.releases())
    good = [place for place, one in enumerate(standings) if one.good]
    newest = standings[good[-1]] if good else None
    newer = standings[good[-1] + 1 :] if good else standings
    block = _block(good)
    exclusions = tuple(_exclusions(standings, block, known, question))
    specifier = ",".join(one.clause for one in exclusions)
    torch, python = known.ran_on(question.device)
    return Advice(
        question=question,
        spots=spots,
        newest=newest,
        specifier=specifier,
        within=tuple(one.release for one in standings[block.start : block.stop] if one.good),
        exclusions=exclusions,
        undecided=tuple(one for one in newer if one.undecided),
        standings=standings,
        apart=tuple(_apart(spots, known, question)),
        packages=_packages(newest, known, question),
        contradicted=tuple(_contradicted(specifier, known, question)),
        torch=torch,
        python=python,
    )


def _packages(
    newest: ReleaseStanding | None, known: KnownEvidence, question: AuditQuestion
) -> dict[str, str]:
    if newest is None:
        return {}
    names = {name for case in question.chosen(known.cases) for name in named(case)}
    held = known.environments[newest.release].pins
    return {name: held[name] for name in sorted(names - {TRANSFORMERS}) if name in held}


def _contradicted(
    specifier: str, known: KnownEvidence, question: AuditQuestion
) -> Iterator[Observation]:
    """Yield the failing cells of pairs whose release is allowed.

    A release was measured with the packages of its day alone; where a case depends on another
    package too, a pair can say that the release is not enough.
    """
    allowed = SpecifierSet(specifier)
    for case in question.chosen(known.cases) if specifier else ():
        for one in known.of(case):
            release = one.version(TRANSFORMERS)
            if one.source is Source.PAIR and allowed.contains(release, prereleases=True):
                cells = [
                    Cell(case.name, PLAIN, one.name, precision, question.device)
                    for precision in question.precisions
                ]
                yield from (known.seen[cell] for cell in cells if known.fails(cell))


def _apart(
    spots: Sequence[Spot], known: KnownEvidence, question: AuditQuestion
) -> Iterator[ReleaseStanding]:
    found: dict[str, list[Spot]] = {}
    for spot in spots:
        for one in known.only_in(known.cases[spot.case]):
            found.setdefault(one.name, []).append(spot)
    for name in known.environments:
        if name in found:
            yield _standing(name, found[name], known, question)


def _standing(
    release: str, spots: Sequence[Spot], known: KnownEvidence, question: AuditQuestion
) -> ReleaseStanding:
    said = {spot: says_at(release, spot, known, question.device) for spot in spots}

    def those(says: Says) -> tuple[Spot, ...]:
        return tuple(spot for spot in spots if said[spot] is says)

    return ReleaseStanding(
        release=release,
        passing=those(Says.CLEAR),
        failing=those(Says.HITS),
        not_applicable=those(Says.NOT_APPLICABLE),
        unknown=those(Says.UNKNOWN),
    )


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
        clause: str, releases: Sequence[ReleaseStanding], *beside: ReleaseStanding
    ) -> Exclusion:
        failing = [one for one in releases if one.failing]
        cites = [
            *(_cited(one, one.failing[0], known, question) for one in failing),
            *(_cited(one, one.passing[0], known, question) for one in beside if not failing),
        ]
        return Exclusion(clause=clause, releases=tuple(releases), cites=tuple(cites))

    if len(block) == 1:
        yield exclusion(f"=={first.release}", [*older, *newer], first)
        return
    yield exclusion(f">={first.release}", older, first)
    inside = standings[block.start : block.stop]
    for clause, bad in _holes(inside, standings):
        place = inside.index(bad[0])
        before = next(one for one in reversed(inside[:place]) if one.good)
        yield exclusion(clause, bad, before, next(one for one in inside[place:] if one.good))
    yield exclusion(f"<={last.release}", newer, last)


def _holes(
    inside: Sequence[ReleaseStanding], standings: Sequence[ReleaseStanding]
) -> Iterator[tuple[str, Sequence[ReleaseStanding]]]:
    """Yield a clause for each minor line without a good release, and for each other bad one."""
    for line, group in groupby(inside, key=lambda one: _line(one.release)):
        bad = [one for one in group if not one.good]
        if bad and not any(one.good for one in standings if _line(one.release) == line):
            yield f"!={line}.*", bad
        else:
            yield from ((f"!={one.release}", [one]) for one in bad)


def _line(release: str) -> str:
    version = Version(release)
    return f"{version.major}.{version.minor}"


def _cited(
    one: ReleaseStanding, spot: Spot, known: KnownEvidence, question: AuditQuestion
) -> Observation:
    environment = with_extras(one.release, known.cases[spot.case].extras)
    return known.seen[Cell(spot.case, PLAIN, environment, spot.precision, question.device)]
