"""What pages are made from: what several of them need is computed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from repromatrix.reports.exports import badges, feed, osv
from repromatrix.reports.exports.rows import packed, rows_of
from repromatrix.reports.figures.main_line import MainSpan
from repromatrix.reports.pages.architecture import (
    ArchitecturePage,
    architectures,
    architectures_page,
)
from repromatrix.reports.pages.case import CasePage, case_page
from repromatrix.reports.pages.changes import ChangesPage, changes
from repromatrix.reports.pages.claims import ClaimsPage, Stated, claims
from repromatrix.reports.pages.data import data_page
from repromatrix.reports.pages.findings import FindingsPage, by_release, findings_page
from repromatrix.reports.pages.main import MainPage, main_page
from repromatrix.reports.pages.model import FamiliesPage, families_page
from repromatrix.reports.pages.package import PackagePage, packages
from repromatrix.reports.pages.release import ReleasePage, Releases
from repromatrix.reports.parts import Inputs, Memory, Noted, digest_of
from repromatrix.reports.sections.history import FailingSpan
from repromatrix.reports.sections.provenance import MeasuredOn, Settings
from repromatrix.reports.sections.release_changes import Between, between
from repromatrix.reports.sections.status import Standing, standings
from repromatrix.reports.sections.workarounds import WorkaroundAdvice
from repromatrix.reports.text import Link, in_path, link_to_family
from repromatrix.reports.view import Once, Survey
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.published import PublishedFinding, RefusedType
from repromatrix.runner.evidence.swept.triage import Triage
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import stem_of
from repromatrix.runner.model.cell import Cell


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptSite:
    """What the sweep published."""

    history: SweepHistory = field(default_factory=SweepHistory)
    findings: tuple[PublishedFinding, ...] = ()
    refused: tuple[RefusedType, ...] = ()
    triage: Triage = field(default_factory=dict)
    classes: SweptSite | None = None
    """The same about further classes of the architectures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The snapshots by name, what each changed, newest first, and where things lie."""

    publications: Mapping[str, Publication] = field(default_factory=dict)
    records: tuple[SnapshotRecord, ...] = ()
    base_url: str = ""
    """Ends in a slash; empty where the site has no address."""
    source: str = ""
    """The address of the repository, without a slash at its end; empty where nobody gave it."""
    swept: SweptSite = field(default_factory=SweptSite)

    @property
    def newest(self) -> Publication | None:
        """The newest snapshot; None where nothing was published."""
        return max(self.publications.values(), key=lambda one: (one.date, one.name), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseBrief:
    """What shared pages need of a case."""

    name: str
    title: str
    claims: tuple[Stated, ...]
    history: tuple[FailingSpan, ...]
    workarounds: tuple[WorkaroundAdvice, ...]
    main: tuple[MainSpan, ...]
    standing: Standing


@dataclass(frozen=True, kw_only=True)
class Site:
    """What pages are made from; what several of them need is computed once."""

    survey: Survey
    """What cells mean, wherever that was measured: all that pages about several cases show."""
    here: Mapping[Cell, Judged] = field(default_factory=dict)
    """What this machine measured as it is published; the page of its case alone shows it."""
    published: Published
    inputs: Inputs | None = None
    """Digests of what it is drawn from; None where nobody knows them."""
    known: Memory = field(default_factory=Memory)

    @cached_property
    def _shared(self) -> str:
        """A digest of what the page of a case shows beside its own cells."""
        view = self.survey
        seen = view.devices, sorted(view.measured_on), view.environments, [*view.cases]
        return digest_of(self.inputs and self.inputs.common, *seen)

    @property
    def shared_key(self) -> str:
        """A digest of all that shared pages show; empty where nobody knows it."""
        return self.inputs.of_shared if self.inputs else ""

    @cached_property
    def is_as_before(self) -> bool:
        """Whether shared pages show what they did: then nothing of them is computed."""
        before = self.known.parts.get("pages")
        is_known = before is not None and before.key == self.shared_key != ""
        return is_known and self.known.briefs.keys() == self.survey.cases.keys()

    def page_key(self, name: str) -> str:
        """Return a digest of all that the page of a case shows; empty where nobody knows it."""
        if self.inputs is None:
            return ""
        return digest_of(self.key_of(name), self.inputs.cases.get(name, ""))

    def key_of(self, name: str) -> str:
        """Return a digest of what shared pages show of a case; empty where nobody knows it."""
        if self.is_as_before:
            return self.known.briefs[name][0]
        return self._keys[name]

    @cached_property
    def _keys(self) -> Once[str, str]:
        return Once(self._key)

    def _key(self, name: str) -> str:
        if self.inputs is None:
            return ""
        # Whether a cell is due may depend on what was measured of other cases.
        unmeasured = [
            (row.seen.cell, row.seen.outcome, row.seen.reason)
            for row in self.survey.of_case(name)
            if not row.seen.outcome.was_run
        ]
        own = (self.inputs.shared or self.inputs.cases).get(name, "")
        return digest_of(self._shared, own, self.standings[name], unmeasured)

    def survey_of(self, name: str) -> Survey:
        """Return the survey that the page of a case is about."""
        return self._own if name in self._cases_here else self.survey

    @cached_property
    def _cases_here(self) -> frozenset[str]:
        return frozenset(cell.case for cell in self.here)

    @cached_property
    def _own(self) -> Survey:
        return replace(self.survey, rows={**self.survey.rows, **self.here})

    def page_here(self, name: str) -> CasePage:
        """Return the page of a case with what this machine measured."""
        is_here = name in self._cases_here
        return self._page(self._own, name) if is_here else self.page(name)

    def page(self, name: str) -> CasePage:
        """Return the page of a case as shared pages know it, computed once."""
        return self._pages[name]

    @cached_property
    def _pages(self) -> Once[str, CasePage]:
        return Once(partial(self._page, self.survey))

    def _page(self, survey: Survey, name: str) -> CasePage:
        return case_page(survey, survey.cases[name], self.standings[name])

    @cached_property
    def noted(self) -> Noted:
        """What shared pages need of each case, kept where its page has not changed."""
        return {
            name: _noted(name, self.key_of(name), self.known.briefs, self._brief)
            for name in self.survey.cases
        }

    def _brief(self, name: str) -> CaseBrief:
        page = self.page(name)
        return CaseBrief(
            name=page.name,
            title=page.title,
            claims=page.claims,
            history=page.summary.history,
            workarounds=page.workarounds,
            main=page.main,
            standing=self.standings[name],
        )

    @cached_property
    def cells(self) -> Noted:
        """The rows of each case in the file of all cells, compressed."""
        return {
            name: _noted(name, self.page_key(name), self.known.cells, self._packed)
            for name in self.survey.cases
        }

    def _packed(self, name: str) -> bytes:
        return packed(rows_of(self.survey_of(name), name))

    @cached_property
    def settings(self) -> Settings:
        """On what cells were measured."""
        return Settings(self.survey)

    @cached_property
    def whole(self) -> MeasuredOn:
        """On what all cells were measured."""
        return self.settings.whole()

    @cached_property
    def cases(self) -> dict[str, CaseBrief]:
        """What shared pages need of each case."""
        return {name: brief for name, (_, brief) in self.noted.items()}

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """How each case stands in the newest release."""
        if self.is_as_before:
            return {name: brief.standing for name, (_, brief) in self.known.briefs.items()}
        return standings(self.survey)

    @cached_property
    def claims(self) -> ClaimsPage:
        """The page of claims."""
        return claims({name: page.claims for name, page in self.cases.items()})

    def of_case_here(self, name: str) -> MeasuredOn:
        """Return on what the cells on the page of a case were measured."""
        here = name in self._cases_here
        return (Settings(self._own) if here else self.settings).of_cases((name,), "this case")

    @property
    def steps(self) -> dict[str, Between]:
        """What each release changed against the one before it."""
        return between(self.survey)

    @cached_property
    def releases(self) -> list[ReleasePage]:
        """The pages of releases, oldest first."""
        histories = {name: page.history for name, page in self.cases.items()}
        told = self.published.publications.values()
        swept = by_release(self.findings)
        arranged = Releases(self.survey, self.steps, told, histories, swept)
        return [arranged.page(name) for name in self.survey.releases]

    @cached_property
    def packages(self) -> tuple[PackagePage, ...]:
        """The pages of packages."""
        return packages(self.survey, self.steps)

    @cached_property
    def models(self) -> FamiliesPage:
        """The families of models, and the cases that any of them can meet."""
        advised = {name: page.workarounds for name, page in self.cases.items()}
        return families_page(self.survey, advised)

    @property
    def further(self) -> SweptSite:
        """What was swept of further classes."""
        return self.published.swept.classes or SweptSite()

    @cached_property
    def architectures(self) -> tuple[ArchitecturePage, ...]:
        """The pages of architectures."""
        cases = self.survey.cases.values()
        names = {name for case in cases for name in (*case.block.families, *case.block.same_code)}
        links = {link.text: link for link in map(link_to_family, sorted(names))}
        return architectures(self.published.swept.history, links, self.further.history)

    @cached_property
    def overview(self) -> dict[str, Any]:
        """All architectures on all releases."""
        swept, refused = self.published.swept, self.further.refused
        return architectures_page(swept.history, self.architectures, swept.refused, refused)

    @cached_property
    def findings(self) -> FindingsPage:
        """What the sweep found, by release."""
        swept, classes = self.published.swept, self.further
        # A decision names a script; its variants have pages.
        pages = {stem_of(name): name for name in reversed([*self.survey.cases])}
        triage = {
            name: tuple(replace(one, case=pages.get(one.case, one.case)) for one in decisions)
            for name, decisions in swept.triage.items()
        }
        further = findings_page(classes.history, classes.findings, triage)
        return findings_page(swept.history, swept.findings, triage, further)

    @cached_property
    def changes(self) -> ChangesPage:
        """The page of what snapshots changed."""
        return changes(self.survey, self.published)

    @cached_property
    def main(self) -> MainPage:
        """The page of what the cases do along the main branch."""
        return main_page(self.survey, {name: page.main for name, page in self.cases.items()})

    @cached_property
    def badges(self) -> tuple[badges.Badge, ...]:
        """The badges of cases and releases."""
        return tuple(badges.badges(self.survey, self.settings))

    @cached_property
    def entries(self) -> tuple[dict[str, Any], ...]:
        """The entries of the OSV format."""
        settings = {
            name: self.settings.of_cases((name,), "this case").sentences
            for name in self.survey.cases
        }
        return osv.entries(self.survey, self.published, settings)

    @cached_property
    def feeds(self) -> dict[str, feed.Feed]:
        """The feeds of cases, families of models and packages, by the path of their page."""
        cases = (
            self._feed(f"case/{name}.html", page.title, [page.name])
            for name, page in self.cases.items()
        )
        models = (
            self._feed(
                family.path,
                family.name,
                [member.case for member in (*family.members, *self.models.every)],
            )
            for family in self.models.families
        )
        packages = (
            self._feed(page.href, page.name, [link.text for link in page.cases])
            for page in self.packages
        )
        return dict(chain(cases, models, packages))

    @cached_property
    def data(self) -> dict[str, Any]:
        """The page of everything that can be downloaded."""
        links = (
            Link(text=one.title.removeprefix("repromatrix: "), href=in_path(one.path))
            for one in self.feeds.values()
        )
        return data_page(self.entries, links, self.badges, self.published)

    @cached_property
    def news(self) -> tuple[feed.FeedEntry, ...]:
        """What the feeds tell."""
        line = self.whole.line
        return feed.entries(self.survey, self.steps, self.changes, self.published, line)

    def _feed(self, page: str, title: str, cases: Collection[str]) -> tuple[str, feed.Feed]:
        """Return the path of a page about some cases, and its feed."""
        path, chosen = feed_of(page), frozenset(cases)
        kept = (entry for entry in self.news if entry.case in chosen)
        return page, feed.feed(kept, self.published, path=path, title=title, href=in_path(page))


def feed_of(page: str) -> str:
    """Return where the feed of a page lies."""
    return f"feed/{page.removesuffix('.html')}.xml"


def _noted(name: str, key: str, known: Noted, made: Callable[[str], object]) -> tuple[str, Any]:
    before = known.get(name)
    return before if key and before and before[0] == key else (key, made(name))
