"""The error messages that were seen, for the reader who arrives with one: each is there once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reports.failures import Place, failures
from reports.phrases import counted, page_of, visible

if TYPE_CHECKING:
    from reports.failures import Signed
    from reports.survey import Survey

_PLACES = 3
"""How many places of a case are named; its page names all."""
_SPANS = 4
"""How many spans of releases a place names: evidence with gaps has many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """A case that fails with a message, and where; `more` says how many places are left out."""

    case: str
    href: str
    places: tuple[Place, ...]
    more: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """The failures of all cases that share a signature."""

    headline: str
    sightings: tuple[Sighting, ...]


def messages(survey: Survey) -> tuple[Message, ...]:
    """Group the failures of all cases by signature, in the order of the alphabet."""
    groups: dict[str, list[tuple[str, Signed]]] = {}
    for name in survey.cases:
        for signed in failures(survey, name):
            groups.setdefault(signed.signature, []).append((name, signed))
    found = [
        Message(
            headline=members[0][1].headline,
            sightings=tuple(_sighting(name, signed) for name, signed in members),
        )
        for members in groups.values()
    ]
    return tuple(sorted(found, key=lambda message: message.headline.casefold()))


def _sighting(name: str, signed: Signed) -> Sighting:
    left_out = len(signed.places) - _PLACES
    return Sighting(
        case=visible(name),
        href=f"{page_of(name)}#{signed.anchor}",
        places=tuple(map(_brief, signed.places[:_PLACES])),
        more=f"and {counted(left_out, 'more place')}" if left_out > 0 else "",
    )


def _brief(place: Place) -> Place:
    named = place.releases.split(", ")
    if len(named) <= _SPANS + 1:
        return place
    left_out = counted(len(named) - _SPANS, "more span")
    return replace(place, releases=f"{', '.join(named[:_SPANS])} and {left_out}")
