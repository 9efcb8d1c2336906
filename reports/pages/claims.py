"""What reports claim beside what was measured: for a case, and for all cases on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repromatrix.reports.exports.rows import ExportTable
from repromatrix.reports.marks import seen_as
from repromatrix.reports.text import Link, in_address, link_to, page_of, requirements_words, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import CheckedClaim, ClaimStanding
from repromatrix.runner.model.case import PLAIN, Case
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
    return tuple(_stated(survey, checked) for checked in survey.claims(case.name))


def _stated(survey: Survey, checked: CheckedClaim) -> Stated:
    claim = checked.claim
    example = (checked.contradicting or checked.agreeing)[:1]
    parts = (
        requirements_words(claim.when),
        join([precision.value for precision in claim.precisions]),
        f"with {claim.workaround}" if claim.workaround != PLAIN else "",
    )
    where = "; ".join(filter(None, parts)) or "everywhere"
    return Stated(
        report=link_to(claim.report),
        says=visible(claim.says),
        where=visible(f"{where}: {claim.outcome}" if claim.outcome else where),
        standing=checked.standing,
        tally=_agreement(checked),
        example=tuple(
            Link(
                text=f"{cell.precision} on {cell.environment}{survey.on(cell.device)}: "
                f"{seen_as(survey.rows[cell], cell.precision).text}",
                href=f"#{in_address(cell.environment)}",
            )
            for cell in example
        ),
    )


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


ClaimsPage = Mapping[ClaimStanding, Sequence[Mapping[str, Any]]]
"""Every claim with the case that checks it, by how it stands."""


def claims(by_case: Mapping[str, Iterable[Stated]]) -> ClaimsPage:
    """Return every claim by how it stands."""
    found: list[dict[str, Any]] = [
        {"case": visible(name), "href": page_of(name), "claim": claim}
        for name, stated_claims in by_case.items()
        for claim in stated_claims
    ]
    order = (ClaimStanding.CONTRADICTED, ClaimStanding.CONFIRMED, ClaimStanding.UNCHECKED)
    return {one: [item for item in found if item["claim"].standing is one] for one in order}


def claims_sheet(page: ClaimsPage) -> ExportTable:
    """Return every claim as a table."""
    rows = (
        (standing.value, member["case"], one.says, one.where, one.tally, one.report.address)
        for standing, members in page.items()
        for member in members
        for one in [member["claim"]]
    )
    columns = ("standing", "case", "says", "where", "tally", "report")
    return ExportTable(path="claims", columns=columns, rows=tuple(rows))
