"""What the reports say over all cases, those first that measurement contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.files.sheet import Sheet
from reports.phrases import page_of, visible
from runner.judging.claims import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reports.stated import Stated


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


def claims(stated: Mapping[str, Iterable[Stated]]) -> ClaimsPage:
    """Return every claim by how it stands; `stated` has those of each case."""
    found = [
        Told(case=visible(name), href=page_of(name), claim=claim)
        for name, of_case in stated.items()
        for claim in of_case
    ]
    by = {one: tuple(item for item in found if item.claim.standing is one) for one in Standing}
    return ClaimsPage(
        contradicted=by[Standing.CONTRADICTED],
        confirmed=by[Standing.CONFIRMED],
        unchecked=by[Standing.UNCHECKED],
    )


def claims_sheet(page: ClaimsPage) -> Sheet:
    """Return every claim as a table."""
    columns = ("standing", "case", "says", "where", "tally", "report")
    return Sheet(
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
