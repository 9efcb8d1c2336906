"""What a case expects in a cell, whether evidence is current, what an outcome means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import EVERY, Case, Failure
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Exercised, Outcome, Reading, Verdict


def is_current(seen: Observation, case: Case, environment: Environment) -> bool:
    """Say whether an observation was measured on this case, these pins and this way of running."""
    if not seen.outcome.was_run:
        return False
    ran = seen.provenance
    # Asked several times of every cell of the table: `stands` would take a tuple each time.
    return (
        ran.case_digest == case.digest
        and ran.environment_digest == environment.digest
        and ran.protocol == PROTOCOL
    )


def stands(measured_on: tuple[str, str, int], case: Case, environment: Environment) -> bool:
    """Say whether case digest, environment digest and protocol are still those of today."""
    return measured_on == (case.digest, environment.digest, PROTOCOL)


def in_releases(environments: Iterable[Environment]) -> frozenset[str]:
    """Return the packages that releases have, any of them."""
    releases = (one for one in environments if one.source in {Source.RELEASE, Source.MAIN})
    return frozenset(name for one in releases for name in one.pins)


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
    return stacks or tuple(one for one in pairs if all(map(one.version, lacking)))


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
    return tuple(
        entry
        for entry in case.block.fails
        if all(
            requirements.holds(requirement, environment.pins, environment.markers)
            for requirement in entry.when
        )
    )


def covers(entry: Failure, cell: Cell) -> bool:
    """Say whether an entry is about a cell's precision, device and workaround."""
    return (
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
        case Reading.UNKNOWN:
            return Verdict.UNPROVEN
        case Reading.BAD:
            if entry is None:
                return Verdict.REGRESSED
            return _as_described(entry, seen)


def _as_described(entry: Failure, seen: Observation) -> Verdict:
    if not described(entry, seen):
        return Verdict.CHANGED
    return Verdict.UNPROVEN if seen.exercised is Exercised.NO else Verdict.AS_EXPECTED


def described(entry: Failure, seen: Observation) -> bool:
    """Say whether a failure is the one that an entry describes, by `raises` and `match` alone."""
    if seen.outcome is not entry.outcome:
        return False
    if seen.outcome is not Outcome.FAILS:
        return True
    return seen.failed is not None and entry.describes(seen.failed.error_class, seen.failed.message)
