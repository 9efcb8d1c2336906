"""Build the site: one static folder that opens from disk, written whole.

`ROUTES` lists the pages, and the navigation is drawn from it.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from repromatrix.reports.drawing import drawn_page
from repromatrix.reports.exports import badges, feed, osv
from repromatrix.reports.exports.decisions import decisions
from repromatrix.reports.exports.matrix_js import about, assignment, data
from repromatrix.reports.exports.pins import pins
from repromatrix.reports.exports.rows import ExportTable, all_cells, as_csv, encoded
from repromatrix.reports.exports.swept_js import swept_data
from repromatrix.reports.pages.architecture import (
    ArchitecturePage,
    ArchitecturesPage,
    architectures,
    architectures_page,
    outcomes_sheet,
)
from repromatrix.reports.pages.case import CasePage, case_page
from repromatrix.reports.pages.changes import ChangesPage, changes, changes_sheet
from repromatrix.reports.pages.check import CHECK_SCRIPTS, check_page
from repromatrix.reports.pages.claims import Stated, claims, claims_sheet
from repromatrix.reports.pages.compare import compare, compare_data
from repromatrix.reports.pages.data import DataPage, data_page
from repromatrix.reports.pages.findings import FindingsPage, by_release, findings_page
from repromatrix.reports.pages.index import SCRIPTS, index
from repromatrix.reports.pages.main import MainPage, main_page, main_sheet
from repromatrix.reports.pages.model import FamiliesPage, families_page
from repromatrix.reports.pages.package import PackagePage, packages
from repromatrix.reports.pages.release import ReleasePage, Releases
from repromatrix.reports.sections.failures import signatures
from repromatrix.reports.sections.provenance import MeasuredOn, Settings
from repromatrix.reports.sections.release_changes import Between, between, changes_table
from repromatrix.reports.sections.status import Standing, standings
from repromatrix.reports.text import Link, in_path
from repromatrix.reports.view import Survey, survey
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.evidence import archive
from repromatrix.runner.evidence.archive import EvidenceArchive
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
from repromatrix.runner.evidence.history import MainHistory
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.sweep.history import SweepHistory
from repromatrix.runner.sweep.published import PublishedFinding, RefusedType
from repromatrix.runner.sweep.triage import TriagedFinding

Files = Iterator[tuple[str, bytes]]
"""The path of each file below the site, and its content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptSite:
    """What the sweep published."""

    history: SweepHistory = field(default_factory=SweepHistory)
    findings: tuple[PublishedFinding, ...] = ()
    refused: tuple[RefusedType, ...] = ()
    triage: Mapping[str, TriagedFinding] = field(default_factory=dict)
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
    archive: EvidenceArchive | None = None
    """What installations take as newer evidence; None where nothing was published."""

    @property
    def newest(self) -> Publication | None:
        """The newest snapshot; None where nothing was published."""
        return max(self.publications.values(), key=lambda one: (one.date, one.name), default=None)


@dataclass(frozen=True, kw_only=True)
class Site:
    """What pages are made from; what several of them need is computed once."""

    survey: Survey
    published: Published
    note: str = ""

    @cached_property
    def settings(self) -> Settings:
        """On what cells were measured."""
        return Settings(self.survey)

    @cached_property
    def whole(self) -> MeasuredOn:
        """On what all cells were measured."""
        return self.settings.whole()

    @cached_property
    def cases(self) -> dict[str, CasePage]:
        """The pages of cases by name."""
        return {
            name: case_page(self.survey, case, self.standings[name])
            for name, case in self.survey.cases.items()
        }

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """How each case stands in the newest release."""
        return standings(self.survey)

    @cached_property
    def claims(self) -> dict[str, tuple[Stated, ...]]:
        """The claims of each case."""
        return {name: page.claims for name, page in self.cases.items()}

    def of_case(self, name: str) -> MeasuredOn:
        """Return on what a case was measured."""
        return self.settings.of_cases((name,), "this case")

    @cached_property
    def steps(self) -> dict[str, Between]:
        """What each release changed against the one before it."""
        return between(self.survey)

    @cached_property
    def releases(self) -> list[ReleasePage]:
        """The pages of releases, oldest first."""
        histories = {name: page.summary.history for name, page in self.cases.items()}
        told = self.published.publications.values()
        swept = by_release(self.findings)
        arranged = Releases(self.survey, self.steps, told, histories, swept)
        return [arranged.page(name) for name in self.survey.releases]

    @cached_property
    def packages(self) -> tuple[PackagePage, ...]:
        """The pages of packages."""
        return packages(self.survey, self.steps, self.standings)

    @cached_property
    def models(self) -> FamiliesPage:
        """The families of models, and the cases that any of them can meet."""
        advised = {name: page.workarounds for name, page in self.cases.items()}
        return families_page(self.survey, advised, self.standings)

    @property
    def further(self) -> SweptSite:
        """What was swept of further classes."""
        return self.published.swept.classes or SweptSite()

    @cached_property
    def architectures(self) -> tuple[ArchitecturePage, ...]:
        """The pages of architectures."""
        links = {one.name: Link(text=one.name, href=one.href) for one in self.models.families}
        return architectures(self.published.swept.history, links, self.further.history)

    @cached_property
    def overview(self) -> ArchitecturesPage:
        """All architectures on all releases."""
        swept, refused = self.published.swept, self.further.refused
        return architectures_page(swept.history, self.architectures, swept.refused, refused)

    @cached_property
    def findings(self) -> FindingsPage:
        """What the sweep found, by release."""
        swept, classes = self.published.swept, self.further
        further = findings_page(classes.history, classes.findings, swept.triage)
        return findings_page(swept.history, swept.findings, swept.triage, further)

    @cached_property
    def navigation(self) -> tuple[Link, ...]:
        """The links of every page, from the first one."""
        return tuple(Link(text=route.title, href=route.path) for route in ROUTES)

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
        settings = {name: self.of_case(name).sentences for name in self.survey.cases}
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
    def data(self) -> DataPage:
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
        path, chosen = f"feed/{page.removesuffix('.html')}.xml", frozenset(cases)
        kept = (entry for entry in self.news if entry.case in chosen)
        return page, feed.feed(kept, self.published, path=path, title=title, href=in_path(page))


class PageRoute(NamedTuple):
    """A page: `NAME.html`, drawn by `NAME.html.jinja`."""

    name: str
    title: str
    """How the navigation calls it."""
    context: Callable[[Site], object]
    tables: Callable[[Site], Iterable[ExportTable]] = lambda _: ()
    """The tables that it links to."""

    @property
    def path(self) -> str:
        """Where it lies, from the first page."""
        return f"{self.name}.html"


class DrawnPage(NamedTuple):
    """One page of a folder, and the cells that it is about."""

    path: str
    context: object
    setting: MeasuredOn
    about: Mapping[str, str] = {}
    """What a report about this page is about, by the fields of the form."""


class PageFolder(NamedTuple):
    """Pages of one kind, drawn by one template, one folder below the first page."""

    template: str
    pages: Callable[[Site], Iterator[DrawnPage]]


def _cases(site: Site) -> Iterator[DrawnPage]:
    for name, page in site.cases.items():
        about = {"case": page.name}
        yield DrawnPage(f"case/{name}.html", page, site.of_case(name), about)


def _releases(site: Site) -> Iterator[DrawnPage]:
    for name, page in zip(site.survey.releases, site.releases, strict=True):
        setting, about = site.settings.of_release(name), {"release": page.name}
        yield DrawnPage(f"release/{name}.html", page, setting, about)


def _packages(site: Site) -> Iterator[DrawnPage]:
    for page in site.packages:
        setting = site.settings.with_package(page.name)
        yield DrawnPage(page.href, page, setting)


def _families(site: Site) -> Iterator[DrawnPage]:
    for family in site.models.families:
        cases = (member.case for member in family.members)
        setting = site.settings.of_cases(cases, "these cases")
        yield DrawnPage(family.path, family, setting)


def _architectures(site: Site) -> Iterator[DrawnPage]:
    for page in site.architectures:
        yield DrawnPage(page.href, page, site.whole)


ROUTES = (
    PageRoute(
        "index",
        "All cases",
        lambda site: index(site.survey, site.releases, site.note, site.findings),
    ),
    PageRoute(
        "check",
        "Check my versions",
        lambda site: check_page(site.survey, site.published.swept.history.architectures),
    ),
    PageRoute(
        "releases",
        "Releases",
        lambda site: site.releases,
        lambda site: [changes_table("releases", site.steps)],
    ),
    PageRoute(
        "main",
        "Main",
        lambda site: site.main,
        lambda site: [main_sheet(site.main)],
    ),
    PageRoute("compare", "Compare", lambda site: compare(site.releases)),
    PageRoute("models", "Models", lambda site: site.models),
    PageRoute(
        "architectures",
        "Architectures",
        lambda site: site.overview,
        lambda site: [outcomes_sheet(site.published.swept.history)],
    ),
    PageRoute("findings", "Findings", lambda site: site.findings),
    PageRoute("packages", "Packages", lambda site: site.packages),
    PageRoute(
        "changes",
        "Changes",
        lambda site: site.changes,
        lambda site: [changes_sheet(site.changes.acts)],
    ),
    PageRoute(
        "claims",
        "Claims",
        lambda site: claims(site.claims),
        lambda site: [claims_sheet(claims(site.claims))],
    ),
    PageRoute("data", "Data", lambda site: site.data),
)
FOLDERS = (
    PageFolder("case.html.jinja", _cases),
    PageFolder("release.html.jinja", _releases),
    PageFolder("package.html.jinja", _packages),
    PageFolder("model.html.jinja", _families),
    PageFolder("architecture.html.jinja", _architectures),
)
_PRUNED = (
    "architecture",
    "badge",
    "case",
    "docs",
    "download",
    "feed",
    "model",
    "osv",
    "package",
    "release",
)
"""Below these folders a file that is no longer drawn is removed."""

_STATIC = Path(__file__).parent / "static"
_COMMENTS = re.compile(rb"^[ \t]*//.*\n", re.MULTILINE)
_ASSETS = (
    *(
        "style.css",
        "pages.css",
        "index.css",
        "check.css",
        "copy.js",
        "grid.js",
        "pinned.js",
        "compare.js",
    ),
    *(name for name in dict.fromkeys((*SCRIPTS, *CHECK_SCRIPTS)) if not name.startswith("data/")),
)


def render(  # noqa: PLR0913 - what is drawn, and where to
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    folder: Path,
    *,
    areas: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    commits: Mapping[ChangeKey, PinnedCommit] | None = None,
    main: MainHistory | None = None,
    note: str = "",
    published: Published | None = None,
) -> None:
    """Write the site; the same input gives the same bytes, and no page is ever half written.

    `environments` come in the order of the table, oldest first. `areas` gives titles, in the order
    of the page, `dates` the day of each release. `note` is one sentence for the headline. What is
    no longer drawn is removed.
    """
    view = survey(cases, environments, judged, areas, dates, commits, main)
    drawn: set[str] = set()
    for name, content in draw(Site(survey=view, published=published or Published(), note=note)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content)
        drawn.add(name)
    for path in [path for name in _PRUNED for path in (folder / name).rglob("*")]:
        # A draft belongs to another run that is writing.
        is_ours = path.is_file() and path.suffix != ".draft"
        if is_ours and path.relative_to(folder).as_posix() not in drawn:
            path.unlink(missing_ok=True)


def _asset(name: str) -> bytes:
    """Return a file as it is published: scripts without comments, which would take long to load."""
    content = (_STATIC / name).read_bytes()
    return _COMMENTS.sub(b"", content) if name.endswith(".js") else content


def draw(site: Site) -> Files:
    """Yield every file of the site."""
    for name in _ASSETS:
        yield name, _asset(name)
    for folder in FOLDERS:
        for page in folder.pages(site):
            yield page.path, _draw(site, folder.template, page)
    for route in ROUTES:
        page = DrawnPage(route.path, route.context(site), site.whole)
        yield route.path, _draw(site, f"{route.path}.jinja", page)
        for table in route.tables(site):
            yield f"{table.path}.csv", encoded(as_csv(table.columns, table.rows))
    # It is shown below any address, so it cannot go by where it lies.
    lost = DrawnPage("404.html", None, site.whole)
    yield lost.path, _draw(site, "404.html.jinja", lost, root=site.published.base_url or "/")
    yield from _exports(site)


def _draw(site: Site, template: str, page: DrawnPage, *, root: str | None = None) -> bytes:
    """Draw a page; `root` leads to the first page where that is not by its own path."""
    return drawn_page(
        template,
        page=page.context,
        root="../" * page.path.count("/") if root is None else root,
        setting=page.setting,
        about=page.about,
        feed=site.feeds.get(page.path),
        base_url=site.published.base_url,
        source=site.published.source,
        navigation=site.navigation,
    )


def _exports(site: Site) -> Files:
    """Yield what lies beside the pages: data, tables, downloads, badges, the feed."""
    view = site.survey
    yield "data/matrix.js", assignment("matrix", data(view))
    yield "data/about.js", assignment("about", about(view.cases.values()))
    yield "data/known.js", assignment("known", signatures(view, site.whole.brief))
    yield "data/compare.js", assignment("compared", compare_data(view))
    yield "data/decisions.js", assignment("decisions", decisions(view))
    yield "data/pins.js", assignment("pins", pins(view))
    pages = {page.name: page.href for page in site.architectures}
    swept = swept_data(site.published.swept.history, site.further.history, pages)
    yield "data/swept.js", assignment("swept", swept)
    cells = encoded(as_csv(*all_cells(view)))
    yield "cells.csv.gz", gzip.compress(cells, compresslevel=6, mtime=0)
    yield feed.MAIN, feed.written(feed.feed(site.news, site.published))
    for each in site.feeds.values():
        yield each.path, feed.written(each)
    for badge in site.badges:
        yield from badges.files(badge)
    yield from osv.files(site.entries)
    if site.published.archive is not None:
        yield archive.NAME, site.published.archive.content


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place at once, unless it is there: two runs may render at the same time."""
    if path.exists() and path.read_bytes() == content:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
