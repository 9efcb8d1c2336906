"""The page of a family of models: its cases, where each fails, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from repromatrix.reports.sections.status import Standing, count_of, standings
from repromatrix.reports.sections.workarounds import WorkaroundAdvice
from repromatrix.reports.text import family_path, in_address, kinds, page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.counts import BugState
from repromatrix.runner.model.case import Case
from repromatrix.runner.text import join


@dataclass(frozen=True, kw_only=True, slots=True)
class Spell:
    """Where the plain case fails, precisions alike together."""

    precisions: str
    device: str
    ranges: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One case: where it fails, and which workarounds work."""

    case: str
    href: str
    title: str
    area: str
    simulated: bool
    concerns: str
    """Which models it is about, where it is about any."""
    kinds: tuple[str, ...]
    """What triggers it and what is seen."""
    standing: Standing
    spells: tuple[Spell, ...]
    remedies: tuple[WorkaroundAdvice, ...]
    by_shared_code: str = ""
    """That it was measured with other families, and which, where this one shares its code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """The cases of a family of models."""

    name: str
    path: str
    members: tuple[Member, ...]
    shared: tuple[Member, ...]
    """Cases that were not run with it, and with whose families it shares code."""
    says: str
    """How many bugs its own cases have, and what became of them."""

    @property
    def state(self) -> BugState | None:
        """That of its cases which matters most; None where no case is about it alone."""
        return self.members[0].standing.state if self.members else None

    @property
    def href(self) -> str:
        """The address of its page, from the first page."""
        return in_address(self.path).replace("%2F", "/")


@dataclass(frozen=True, kw_only=True, slots=True)
class FamiliesPage:
    """All families of models."""

    families: tuple[Family, ...]
    every: tuple[Member, ...]
    """Cases about any model, which each of them may meet as well."""


def families_page(
    survey: Survey, advised: Mapping[str, Iterable[WorkaroundAdvice]]
) -> FamiliesPage:
    """Return the families of models in the order of the alphabet, what fails first in each.

    `advised` has what the workarounds of each case do.
    """
    known = standings(survey)
    found: dict[str, list[Member]] = {}
    shared: dict[str, list[Member]] = {}
    every: list[Member] = []
    for case in survey.cases.values():
        member = _member(survey, case, advised[case.name], known[case.name])
        if case.block.is_about_any_model:
            every.append(member)
        for model in dict.fromkeys(case.block.families):
            found.setdefault(model, []).extend([] if case.block.is_about_any_model else [member])
        measured = visible(f"measured with {join(case.block.families)}")
        for model in case.block.same_code:
            shared.setdefault(model, []).append(replace(member, by_shared_code=measured))
    return FamiliesPage(
        families=tuple(
            Family(
                name=visible(model),
                path=family_path(model),
                members=_worst_first(found.get(model, [])),
                shared=_worst_first(shared.get(model, [])),
                says=count_of(survey, (member.case for member in found.get(model, ()))).tally,
            )
            for model in sorted({*found, *shared})
        ),
        every=_worst_first(every),
    )


_STATES = tuple(BugState)


def _worst_first(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: _STATES.index(member.standing.state)))


def _member(
    survey: Survey, case: Case, advised: Iterable[WorkaroundAdvice], standing: Standing
) -> Member:
    return Member(
        case=visible(case.name),
        href=page_of(case.name),
        title=visible(case.block.title),
        area=visible(case.block.area),
        simulated=bool(case.block.simulates),
        concerns=visible(" ".join((case.block.concerns or "").split())),
        kinds=kinds(case),
        standing=standing,
        spells=tuple(
            Spell(precisions=join(precisions), device=device.value, ranges=ranges)
            for device, precisions, ranges in survey.failing_ranges(case)
        ),
        remedies=tuple(advice for advice in advised if advice.fixes),
    )
