"""The page of one release: what it breaks and fixes, what fails on it, its packages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from repromatrix.reports.marks import Mark
from repromatrix.reports.pages.findings import ReleaseFindings
from repromatrix.reports.sections.failures import AlikeCells, alike
from repromatrix.reports.sections.history import FailingSpan, FixedBy, history
from repromatrix.reports.sections.release_changes import (
    Between,
    CaseChange,
    ReleaseDifference,
    Shift,
    by_case,
)
from repromatrix.reports.sections.status import by_device, columns, every_bug, statuses
from repromatrix.reports.text import Link, in_address, kinds, page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.judging.counts import BugCount, BugMove, moves
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.model.packages import DECIDING, TRANSFORMERS

_KINDS = (CellChange.BROKE, CellChange.FIXED, CellChange.CHANGED)
_SAYS_NOTHING = frozenset({Verdict.UNPROVEN, Verdict.NOT_APPLICABLE})


@dataclass(frozen=True, kw_only=True, slots=True)
class FailingCase:
    """A case that fails on a release, and all the ways in which it does."""

    case: str
    title: str
    href: str
    sort: str
    """`error`, `silent` or `intended`; `variant` where it fails with a workaround only."""
    kinds: tuple[str, ...]
    mends: tuple[FixedBy, ...]
    ways: tuple[AlikeCells, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePage:
    """The page of one release."""

    name: str
    href: str
    is_release: bool
    date: str
    origin: str
    """Of `main`, which sources were measured; empty for a release."""
    before: tuple[Link, ...]
    after: tuple[Link, ...]
    companions: list[dict[str, str]]
    """The packages beside transformers, and their versions in the release before, if others."""
    numbers: Mapping[Mark, int]
    """How many of its cells show a mark."""
    status: BugCount | None
    """How many known bugs it has; None where no case applies."""
    devices: str
    """How many of them fail on each device, where there are several."""
    moves: Mapping[BugMove, tuple[Link, ...]]
    """What makes the difference to the count of the release before, by title."""
    judged: bool
    """Whether any cell has a result: without one, nothing is known to be broken or safe."""
    changes: Mapping[CellChange, tuple[CaseChange, ...]]
    """What broke, is fixed or fails in another way, in some precision or in all."""
    beside: Mapping[CellChange, tuple[CaseChange, ...]]
    """What changed with a workaround."""
    came_and_went: tuple[ReleaseDifference, ...]
    shifts: tuple[Shift, ...]
    unknown: int
    unmeasured: int
    failing: tuple[FailingCase, ...]
    swept: ReleaseFindings | None
    """What it changed for all architectures, where it was swept."""
    sheet: str


def address_of(release: str) -> str:
    """Return the address of the page of a release, from the first page."""
    return f"release/{in_address(release)}.html"


class Releases:
    """The evidence of a survey by column, arranged once for the pages of all releases."""

    def __init__(
        self,
        survey: Survey,
        steps: Mapping[str, Between],
        publications: Iterable[Publication] = (),
        histories: Mapping[str, tuple[FailingSpan, ...]] | None = None,
        swept: Mapping[str, ReleaseFindings] | None = None,
    ) -> None:
        """Arrange what fails, and count what every cell shows.

        `histories` are the ranges of each case, where somebody has them already.
        """
        self.survey, self.steps, self.publications = survey, steps, tuple(publications)
        self._histories = histories or {
            name: history(survey, case) for name, case in survey.cases.items()
        }
        self._swept = swept or {}
        self._places = {name: place for place, name in enumerate(survey.releases)}
        self._statuses = statuses(survey)
        self._failing: dict[str, list[Judged]] = {}
        for name in survey.cases:
            for row in survey.of_case(name):
                if row.seen.outcome.is_failure:
                    column = survey.column_of[row.seen.cell.environment]
                    self._failing.setdefault(column, []).append(row)
        self._shown: defaultdict[str, Counter[Mark]] = defaultdict(Counter)
        for cell, seen in survey.shown:
            self._shown[survey.column_of[cell.environment]][seen.mark] += 1

    def page(self, name: str) -> ReleasePage:
        """Return the context of the page of one release."""
        names = self.survey.line if name in self.survey.line else self.survey.releases
        place = names.index(name)
        step = self.steps.get(name)
        environment = self.survey.by_name[name]
        before = self.survey.by_name[names[place - 1]] if place else None
        shown = self._shown[name]
        changed = {kind: step.of(kind) if step else () for kind in _KINDS}
        plain = {
            kind: tuple(one for one in found if not one.workaround)
            for kind, found in changed.items()
        }
        beside = {
            kind: tuple(one for one in found if one.workaround) for kind, found in changed.items()
        }
        return ReleasePage(
            name=visible(name),
            href=address_of(name),
            is_release=environment.source is Source.RELEASE,
            date=self.survey.dates.get(name, ""),
            origin=_origin(self.survey, environment, self.publications),
            before=_links(names[place - 1 : place] if place else ()),
            after=_links(names[place + 1 : place + 2]),
            companions=_companions(environment, before),
            numbers={mark: shown[mark] for mark in Mark if shown[mark]},
            status=self._statuses.get(name),
            devices=by_device(self.survey, name),
            moves=self._moves(step.before, name) if step else dict.fromkeys(BugMove, ()),
            judged=any(mark.verdict not in _SAYS_NOTHING for mark in shown),
            changes={kind: by_case(self.survey, found) for kind, found in plain.items()},
            beside={kind: by_case(self.survey, found) for kind, found in beside.items()},
            came_and_went=step.of(CellChange.NEW, CellChange.GONE) if step else (),
            shifts=step.shifts if step else (),
            unknown=step.unknown if step else 0,
            unmeasured=step.unmeasured if step else 0,
            failing=tuple(self._cases(name)),
            swept=self._swept.get(name),
            sheet=f"release/{name}",
        )

    def _moves(self, before: str, after: str) -> dict[BugMove, tuple[Link, ...]]:
        of = columns(self.survey)
        found = moves(every_bug(self.survey), of[before], of[after])
        return {
            move: tuple(Link(text=visible(bug.title), href=page_of(bug.case)) for bug in bugs)
            for move, bugs in found.items()
        }

    def _cases(self, release: str) -> Iterator[FailingCase]:
        status = self._statuses.get(release)
        plain = {bug.case for bug in (*status.open, *status.intended)} if status else set()
        for name, ways in groupby(
            alike(self.survey, self._failing.get(release, ())), key=attrgetter("case")
        ):
            case, every = self.survey.cases[name], tuple(ways)
            mends = (one.mend for one in self._histories[name] if self._lies_in(one, release))
            yield FailingCase(
                case=name,
                title=every[0].title,
                href=every[0].href,
                sort=every[0].sort if name in plain else "variant",
                kinds=kinds(case),
                mends=tuple(dict.fromkeys(mend for mend in mends if mend)),
                ways=every,
            )

    def _lies_in(self, span: FailingSpan, release: str) -> bool:
        """Say whether a release lies in a range; of another package's versions they all may."""
        first, last, at = map(self._places.get, (span.first.name, span.last.name, release))
        return first is None or last is None or (at is not None and first <= at <= last)


def _origin(survey: Survey, environment: Environment, publications: Iterable[Publication]) -> str:
    """Say which sources `main` was: version, commit, day, repository, and whether it is old."""
    if environment.source is not Source.MAIN:
        return ""
    claims, _, commit = environment.version(TRANSFORMERS).partition("+g")
    told = next((one.main for one in publications if f"{claims}+g{commit}" in one.main), "")
    _, day, repository = [*told.split(" "), "", "", ""][:3]
    parts = [
        f"sources that claim transformers {claims}",
        f"commit {commit}" if commit else "",
        f"of {day}" if day else "",
        f"from {repository}" if repository else "",
    ]
    newest = survey.line[-1]
    older = "" if newest == environment.name else f"; older than the newest release, {newest}"
    return visible(f"{' '.join(filter(None, parts))}{older}")


def _links(names: Sequence[str]) -> tuple[Link, ...]:
    return tuple(Link(text=visible(name), href=address_of(name)) for name in names)


def _companions(here: Environment, before: Environment | None) -> list[dict[str, str]]:
    versions = {
        name: (here.version(name), before.version(name) if before else here.version(name))
        for name in DECIDING
    }
    return [
        {
            "name": name,
            "version": visible(version or "absent"),
            "was": visible(was) if was != version else "",
        }
        for name, (version, was) in versions.items()
        if version or was
    ]
