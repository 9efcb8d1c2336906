"""What a case and its claims expect, and what an observation means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import EVERY, Case, Claim, Failure, variant_of
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Exercised, Outcome, Reading, Verdict

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def is_current(seen: Observation, case: Case, environment: Environment) -> bool:
    """Say whether an observation was measured on this case, these pins and this way of running."""
    return seen.outcome.was_run and is_standing(seen, case, environment)


def is_standing(seen: Observation, case: Case, environment: Environment) -> bool:
    """Say whether a row, be it only why it was not run, is of today's case, pins and protocol."""
    ran = seen.provenance
    return stands((ran.case_digest, ran.environment_digest, ran.protocol), case, environment)


def stands(measured_on: tuple[str, str, int], case: Case, environment: Environment) -> bool:
    """Say whether case digest, environment digest and protocol are still those of today."""
    return measured_on == (case.digest, environment.digest, PROTOCOL)


def in_releases(environments: Iterable[Environment]) -> frozenset[str]:
    """Return the packages that releases have, any of them."""
    releases = (
        environment
        for environment in environments
        if environment.source in {Source.RELEASE, Source.MAIN}
    )
    return frozenset(name for release in releases for name in release.pins)


def only_in(
    case: Case, environments: Iterable[Environment], held: frozenset[str]
) -> tuple[Environment, ...]:
    """Return the stacks of a program that a case needs, or the pairs that have what it lacks.

    `held` is what releases have; of a case that needs no more there is nothing to return.
    """
    lacking = case.packages - held - {*case.extras}
    if not lacking:
        return ()
    every = tuple(environments)
    stacks = tuple(one for one in every if one.program in case.packages)
    pairs = (one for one in every if one.name in case.block.environments)
    return stacks or tuple(pair for pair in pairs if all(map(pair.version, lacking)))


def expected(case: Case, cell: Cell, environment: Environment) -> Failure | None:
    """Return the entry that holds in a cell, or None where the case is expected to pass.

    `check` refuses a case with two.
    """
    return covering(live(case, environment), cell)


def covering(held: Sequence[Failure], cell: Cell) -> Failure | None:
    """Return the first of the entries that hold in an environment which is about a cell."""
    # Most hold none: looking for one costs as much as all the rest of judging.
    return next((entry for entry in held if covers(entry, cell)), None) if held else None


def live(case: Case, environment: Environment) -> tuple[Failure, ...]:
    """Return the entries whose requirements hold in an environment, whatever the cell."""
    return tuple(entry for entry in case.block.fails if meets(environment, entry.when))


def meets(environment: Environment, when: Iterable[Requirement]) -> bool:
    """Say whether all requirements hold in an environment."""
    pins, markers = environment.pins, environment.markers
    return all(requirements.holds(requirement, pins, markers) for requirement in when)


def covers(entry: Failure, cell: Cell) -> bool:
    """Say whether an entry is about a cell's variant, precision, device and workaround."""
    return (not entry.variants or variant_of(cell.case) in entry.variants) and (
        cell.precision in entry.precisions
        and cell.device in entry.devices
        and (EVERY in entry.workarounds or cell.workaround in entry.workarounds)
    )


def judge(  # noqa: PLR0911 - a table: one return per kind of outcome
    entry: Failure | None, seen: Observation
) -> Verdict:
    """Say what an observation means against the entry that holds in its cell."""
    if seen.unstable:
        return Verdict.UNPROVEN
    match seen.outcome.reading:
        case Reading.GOOD:
            if seen.exercised is Exercised.NO:
                return Verdict.UNPROVEN
            return Verdict.AS_EXPECTED if entry is None else Verdict.FIXED
        case Reading.ABSENT | Reading.SILENT:
            return Verdict.NOT_APPLICABLE
        case Reading.UNKNOWN | Reading.UNASKED:
            return Verdict.UNPROVEN
        case Reading.BAD:
            if entry is None:
                return Verdict.REGRESSED
            if not described(entry, seen):
                return Verdict.CHANGED
            return Verdict.UNPROVEN if seen.exercised is Exercised.NO else Verdict.AS_EXPECTED


def described(entry: Failure, seen: Observation) -> bool:
    """Say whether a failure is the one that an entry describes: its words, in its place."""
    if not worded(entry, seen):
        return False
    # To find the place in a traceback takes longer than all the rest, and most entries name none.
    return seen.failed is None or not entry.where or entry.is_at(seen.failed.place)


def worded(entry: Failure, seen: Observation) -> bool:
    """Say whether a failure has the outcome and the words of an entry, wherever it happens."""
    if seen.outcome is not entry.outcome:
        return False
    if seen.outcome is not Outcome.FAILS:
        return True
    failed = seen.failed
    return failed is not None and entry.has_words(failed.error_class, failed.message)


def elsewhere(judged: Judged) -> str:
    """Return where a cell fails that has the words of its entry, but not its place; else nothing.

    It is what to say of such a cell: its error alone reads as expected.
    """
    entry, seen = judged.entry, judged.seen
    has_words = judged.verdict is Verdict.CHANGED and entry is not None and worded(entry, seen)
    return seen.failed.place if has_words and seen.failed is not None else ""


def by_case(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group judged observations by the name of their case, in the order given."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.seen.cell.case, []).append(one)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One observation, what was expected of it, what it means, and whether it is out of date."""

    seen: Observation
    entry: Failure | None
    verdict: Verdict
    stale: bool
    published: Observation | None = None
    """The published result, where what this machine measured and repeated denies it."""


def judge_all(
    seen: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[Judged, ...]:
    """Judge every observation whose case and environment still exist."""
    held: dict[tuple[str, str], tuple[Case, Environment, tuple[Failure, ...]]] = {}
    found: list[Judged] = []
    for row in seen:
        cell = row.cell
        key = (cell.case, cell.environment)
        if key not in held:
            case, environment = cases.get(cell.case), environments.get(cell.environment)
            if case is None or environment is None:
                continue
            held[key] = case, environment, live(case, environment)
        case, environment, entries = held[key]
        entry = covering(entries, cell)
        stale = row.outcome.was_run and not is_current(row, case, environment)
        # What was run all the same says nothing about its case.
        verdict = Verdict.NOT_APPLICABLE if environment.unusable else judge(entry, row)
        found.append(Judged(seen=row, entry=entry, verdict=verdict, stale=stale))
    return tuple(found)


class ClaimStanding(StrEnum):
    """How a claim stands after measurement."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedClaim:
    """A claim with the cells that agree with it and those that do not."""

    claim: Claim
    standing: ClaimStanding
    agreeing: tuple[Cell, ...]
    contradicting: tuple[Cell, ...]


def check_claims(
    case: Case, seen: Iterable[Observation], environments: Mapping[str, Environment]
) -> tuple[CheckedClaim, ...]:
    """Hold every claim of a case against its observations; one without outcome is unchecked."""
    rows = [row for row in seen if row.cell.case == case.name]
    return tuple(_check(claim, rows, environments) for claim in case.block.claims)


def _check(
    claim: Claim, rows: list[Observation], environments: Mapping[str, Environment]
) -> CheckedClaim:
    covered = [row for row in rows if claim.outcome and _covers(claim, row, environments)]
    failures = [outcome for outcome in Outcome if outcome.is_failure]
    agrees = {claim.outcome, *(failures if claim.outcome is Outcome.FAILS else ())}
    agreeing = tuple(row.cell for row in covered if row.outcome in agrees)
    against = tuple(row.cell for row in covered if row.outcome not in agrees)
    standing = ClaimStanding.UNCHECKED
    if covered:
        standing = ClaimStanding.CONTRADICTED if against else ClaimStanding.CONFIRMED
    return CheckedClaim(claim=claim, standing=standing, agreeing=agreeing, contradicting=against)


def _covers(claim: Claim, row: Observation, environments: Mapping[str, Environment]) -> bool:
    environment = environments.get(row.cell.environment)
    return (
        environment is not None
        and row.reading.fails is not None
        and row.cell.workaround == claim.workaround
        and (not claim.precisions or row.cell.precision in claim.precisions)
        and meets(environment, claim.when)
    )
