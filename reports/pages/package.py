"""The page of a package: what changed with which version of it, and the cases that ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from repromatrix.reports.pages.release import address_of
from repromatrix.reports.sections.release_changes import (
    Between,
    CaseChange,
    ReleaseDifference,
    by_case,
)
from repromatrix.reports.sections.status import at_fault
from repromatrix.reports.text import Link, page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.packages import MOVED, TRANSFORMERS
from repromatrix.runner.text import join


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldVersions:
    """A version, the releases that hold it, and what differs where it came in.

    `with_it` names what else changed at the same step: nothing says which of them did it.
    """

    version: str
    releases: tuple[Link, ...]
    differences: tuple[ReleaseDifference, ...]
    broke: tuple[CaseChange, ...]
    fixed: tuple[CaseChange, ...]
    """Of the differences those without a workaround, of cases that need the package."""
    with_it: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alone:
    """The versions of this package, which is at fault, in which a bug of a case fails."""

    case: str
    title: str
    href: str
    workaround: str
    precisions: str
    ranges: tuple[str, ...]
    releases: str
    """On which releases of transformers it was seen."""
    is_open: bool
    """Whether no version fixes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagePage:
    """The page of one package."""

    name: str
    href: str
    held: tuple[HeldVersions, ...]
    alone: tuple[Alone, ...]
    cases: tuple[Link, ...]
    """Those that need it, by their names."""
    titles: tuple[Link, ...]
    says: str
    """In how many bugs it is at fault, and what became of them."""


def packages(survey: Survey, steps: Mapping[str, Between]) -> tuple[PackagePage, ...]:
    """Return the pages of the packages that some release has, or that are at fault."""
    known = at_fault(survey)
    names = [*MOVED, *sorted(known.keys() - {*MOVED})]
    needing = {
        name: [case for case in survey.cases.values() if name in case.packages] for name in names
    }
    return tuple(
        PackagePage(
            name=name,
            href=f"package/{name}.html",
            held=_held(survey, steps, name),
            alone=() if name == TRANSFORMERS else _worst_first(_alone(survey, name)),
            cases=tuple(
                Link(text=visible(case.name), href=page_of(case.name)) for case in needing[name]
            ),
            titles=tuple(
                Link(text=visible(case.block.title), href=page_of(case.name))
                for case in needing[name]
            ),
            says=known[name].tally if name in known else "no known bug",
        )
        for name in names
        if name in known
        or any(survey.by_name[release].version(name) for release in survey.releases)
    )


def _held(survey: Survey, steps: Mapping[str, Between], name: str) -> tuple[HeldVersions, ...]:
    runs = groupby(survey.releases, key=lambda one: survey.by_name[one].version(name))
    found = [(version, list(releases)) for version, releases in runs if version]
    kinds = CellChange.BROKE, CellChange.FIXED, CellChange.CHANGED
    return tuple(
        HeldVersions(
            version=visible(version),
            releases=tuple(Link(text=visible(one), href=address_of(one)) for one in releases),
            differences=step.of(*kinds) if step else (),
            broke=_needing(survey, step, name, CellChange.BROKE),
            fixed=_needing(survey, step, name, CellChange.FIXED),
            with_it=_changed(survey, step.before, releases[0], name) if step else (),
        )
        for version, releases in reversed(found)
        for step in [steps.get(releases[0])]
    )


def _needing(
    survey: Survey, step: Between | None, package: str, kind: CellChange
) -> tuple[CaseChange, ...]:
    """Return what changed of the cases that need a package: others were changed by another."""
    found = (one for one in (step.of(kind) if step else ()) if not one.workaround)
    return by_case(survey, [one for one in found if package in survey.cases[one.case].packages])


def _changed(survey: Survey, before: str, after: str, name: str) -> tuple[str, ...]:
    one, other = survey.by_name[before], survey.by_name[after]
    return tuple(
        other_name
        for other_name in MOVED
        if other_name != name and one.version(other_name) != other.version(other_name)
    )


def _worst_first(found: Iterable[Alone]) -> tuple[Alone, ...]:
    """Sort what no version fixes to the front, and what fails with a workaround to the end."""
    return tuple(sorted(found, key=lambda one: (bool(one.workaround), not one.is_open)))


def _alone(survey: Survey, package: str) -> Iterator[Alone]:
    for case in survey.cases.values():
        alike: dict[tuple[str, str, str, tuple[str, ...], str, bool], list[Precision]] = {}
        for key, rows in survey.series(case.name).items():
            workaround, device, precision = key
            on = f" on {device}" if len(survey.devices) > 1 else ""
            for bug in survey.affected(case.name, key):
                if bug.package == package:
                    texts = tuple(interval.text for interval in bug.intervals)
                    releases = survey.spans([name for name in rows if name in bug.failing])
                    end = bug.intervals[-1]
                    is_open = not (end.fixed or end.last)
                    same = bug.title, workaround, on, texts, releases, is_open
                    alike.setdefault(same, []).append(precision)
        for (title, workaround, on, texts, releases, is_open), precisions in alike.items():
            yield Alone(
                case=visible(case.name),
                title=visible(title),
                href=page_of(case.name),
                workaround=visible(workaround),
                precisions=f"{join([*precisions])}{on}",
                ranges=tuple(map(visible, texts)),
                releases=releases,
                is_open=is_open,
            )
