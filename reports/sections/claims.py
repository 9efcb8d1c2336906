"""What the reports of a case claim, beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from repromatrix.reports.marks import seen_as
from repromatrix.reports.text import Link, in_address, link_to, requirements_words, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.claims import CheckedClaim, ClaimStanding
from repromatrix.runner.model.case import PLAIN, Case, Claim
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.text import join, plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """A claim of a report beside what was measured; `example` is a cell that decides it."""

    report: Link
    says: str
    where: str
    standing: ClaimStanding
    tally: str
    example: tuple[Link, ...]


def stated(survey: Survey, case: Case) -> tuple[Stated, ...]:
    """Return every claim of a case with its standing."""
    return tuple(_stated(survey, claim) for claim in survey.claims(case.name))


def _stated(survey: Survey, checked: CheckedClaim) -> Stated:
    claim = checked.claim
    example = (checked.contradicting or checked.agreeing)[:1]
    return Stated(
        report=link_to(claim.report),
        says=visible(claim.says),
        where=_where(claim),
        standing=checked.standing,
        tally=_agreement(checked),
        example=tuple(_example(survey, cell) for cell in example),
    )


def _where(claim: Claim) -> str:
    told = (
        requirements_words(claim.when),
        join([precision.value for precision in claim.precisions]),
        f"with {claim.workaround}" if claim.workaround != PLAIN else "",
    )
    where = "; ".join(text for text in told if text) or "everywhere"
    return visible(f"{where}: {claim.outcome}" if claim.outcome else where)


def _agreement(checked: CheckedClaim) -> str:
    total = len(checked.agreeing) + len(checked.contradicting)
    match checked.standing:
        case ClaimStanding.UNCHECKED if checked.claim.outcome is None:
            return "names no outcome to check"
        case ClaimStanding.UNCHECKED:
            return "no measured cell is covered"
        case ClaimStanding.CONFIRMED:
            return f"agrees with {plural(total, 'cell')}"
        case ClaimStanding.CONTRADICTED:
            return f"contradicted by {len(checked.contradicting):,} of {plural(total, 'cell')}"


def _example(survey: Survey, cell: Cell) -> Link:
    where = f"{cell.precision} on {cell.environment}{survey.on(cell.device)}"
    said = seen_as(survey.rows[cell], cell.precision).text
    return Link(text=f"{where}: {said}", href=f"#{in_address(cell.environment)}")
