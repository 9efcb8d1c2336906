"""The claims of reports that measurement contradicts, over all cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.phrases import Link, link_to, page_of, visible
from runner.judging.claims import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.survey import Survey


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """A claim, and in how many of the cells that it covers it does not hold."""

    case: str
    href: str
    says: str
    report: Link
    contradicting: int
    covered: int


def contradictions(survey: Survey) -> tuple[Contradiction, ...]:
    """Return every contradicted claim, in the order of the cases."""
    return tuple(found for name in survey.cases for found in _of_case(survey, name))


def _of_case(survey: Survey, name: str) -> Iterator[Contradiction]:
    for checked in survey.claims(name):
        if checked.standing is Standing.CONTRADICTED:
            against, agreeing = len(checked.contradicting), len(checked.agreeing)
            yield Contradiction(
                case=visible(name),
                href=f"{page_of(name)}#claims",
                says=visible(checked.claim.says),
                report=link_to(checked.claim.report),
                contradicting=against,
                covered=against + agreeing,
            )
