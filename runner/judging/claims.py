"""What reports say, held against what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case, Claim
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome


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
    agreeing = tuple(row.cell for row in covered if _agrees(claim.outcome, row.outcome))
    against = tuple(row.cell for row in covered if not _agrees(claim.outcome, row.outcome))
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
        and all(
            requirements.holds(requirement, environment.pins, environment.markers)
            for requirement in claim.when
        )
    )


def _agrees(claimed: Outcome | None, seen: Outcome) -> bool:
    return seen is claimed or (claimed is Outcome.FAILS and seen.is_failure)
