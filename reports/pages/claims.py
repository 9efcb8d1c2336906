"""What the reports say over all cases, those first that measurement contradicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from repromatrix.reports.exports.rows import ExportTable
from repromatrix.reports.pages.case import CasePage
from repromatrix.reports.sections.claims import Stated
from repromatrix.reports.text import page_of, visible
from repromatrix.runner.judging.claims import ClaimStanding


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A claim with the case that checks it."""

    case: str
    href: str
    claim: Stated


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimsPage:
    """Every claim, by how it stands."""

    contradicted: tuple[Told, ...]
    confirmed: tuple[Told, ...]
    unchecked: tuple[Told, ...]


def claims(pages: Mapping[str, CasePage]) -> ClaimsPage:
    """Return every claim by how it stands, from the pages of cases."""
    found = [
        Told(case=visible(name), href=page_of(name), claim=claim)
        for name, page in pages.items()
        for claim in page.claims
    ]
    by = {one: tuple(item for item in found if item.claim.standing is one) for one in ClaimStanding}
    return ClaimsPage(
        contradicted=by[ClaimStanding.CONTRADICTED],
        confirmed=by[ClaimStanding.CONFIRMED],
        unchecked=by[ClaimStanding.UNCHECKED],
    )


def claims_sheet(page: ClaimsPage) -> ExportTable:
    """Return every claim as a table."""
    columns = ("standing", "case", "says", "where", "tally", "report")
    return ExportTable(
        path="claims",
        columns=columns,
        rows=tuple(
            (
                one.claim.standing.value,
                one.case,
                one.claim.says,
                one.claim.where,
                one.claim.tally,
                one.claim.report.href or one.claim.report.text,
            )
            for one in (*page.contradicted, *page.confirmed, *page.unchecked)
        ),
    )
