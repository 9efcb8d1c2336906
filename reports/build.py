"""Build the site: one static folder that opens from disk, written whole.

`ROUTES` lists the pages, and the navigation is drawn from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from repromatrix.reports.drawing import drawn_page
from repromatrix.reports.exports import badges, feed, osv
from repromatrix.reports.exports.decisions import decisions
from repromatrix.reports.exports.matrix_js import about, assignment, data, measured
from repromatrix.reports.exports.pins import pins
from repromatrix.reports.exports.rows import CELL_COLUMNS, ExportTable, as_csv, encoded, packed
from repromatrix.reports.pages.architecture import outcomes_sheet
from repromatrix.reports.pages.changes import changes_sheet
from repromatrix.reports.pages.check import CHECK_SCRIPTS, check_page
from repromatrix.reports.pages.claims import claims_sheet
from repromatrix.reports.pages.compare import compare, compare_data
from repromatrix.reports.pages.index import SCRIPTS, index
from repromatrix.reports.pages.main import main_sheet
from repromatrix.reports.parts import (
    IDENTITY,
    Files,
    Inputs,
    Memory,
    SitePart,
    digest_of,
    draw_both,
)
from repromatrix.reports.sections.failures import signatures
from repromatrix.reports.sections.provenance import MeasuredOn
from repromatrix.reports.sections.release_changes import changes_table, sides
from repromatrix.reports.sections.status import standings
from repromatrix.reports.site import Published, Site, feed_of
from repromatrix.reports.text import Link
from repromatrix.reports.view import survey
from repromatrix.runner.audit.pasted import ALIASES, PATTERNS
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
from repromatrix.runner.evidence.history import MainHistory
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment


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


def _case(site: Site, name: str) -> Files:
    page, setting = site.page_here(name), site.of_case_here(name)
    drawn = DrawnPage(f"case/{name}.html", page, setting, {"case": page.name})
    yield drawn.path, _draw(site, "case.html.jinja", drawn)


def _releases(site: Site) -> Iterator[DrawnPage]:
    for name, page in zip(site.survey.releases, site.releases, strict=True):
        setting, about = site.settings.of_release(name), {"release": page.name}
        yield DrawnPage(f"release/{name}.html", page, setting, about)


def _packages(site: Site) -> Iterator[DrawnPage]:
    for page in site.packages:
        yield DrawnPage(page.href, page, site.settings.with_package(page.name))


def _families(site: Site) -> Iterator[DrawnPage]:
    for family in site.models.families:
        cases = (member.case for member in family.members)
        setting = site.settings.of_cases(cases, "these cases")
        yield DrawnPage(family.path, family, setting)


ROUTES = (
    PageRoute(
        "index",
        "All cases",
        lambda site: index(site.survey, site.releases, site.findings),
    ),
    PageRoute(
        "check",
        "Check my versions",
        lambda site: check_page(site.survey, {one.name: one.href for one in site.architectures}),
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
        lambda site: site.claims,
        lambda site: [claims_sheet(site.claims)],
    ),
    PageRoute("data", "Data", lambda site: site.data),
)
FOLDERS = (
    ("release.html.jinja", _releases),
    ("package.html.jinja", _packages),
    ("model.html.jinja", _families),
)
"""A template, and the pages that it draws one folder below the first page."""
_SWEPT = "architectures"
"""The page that shows nothing but what the sweep published."""
_WITH_A_FEED = ("case/", "model/", "package/")
_OURS = frozenset({".css", ".csv", ".gz", ".html", ".js", ".json", ".xml", ".xz"})
"""The endings of files beside the first page, which are removed as well."""
_PRUNED = (
    "architecture",
    "badge",
    "case",
    "data",
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
ASSETS = (
    *(
        "style.css",
        "pages.css",
        "index.css",
        "check.css",
        "page.js",
        "grid.js",
        "pinned.js",
        "compare.js",
    ),
    *(name for name in dict.fromkeys((*SCRIPTS, *CHECK_SCRIPTS)) if not name.startswith("data/")),
)
"""Files that lie beside the pages as they are, but for comments."""


def render(  # noqa: PLR0913 - what is drawn, and where to
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    folder: Path,
    *,
    dates: Mapping[str, str] | None = None,
    commits: Mapping[ChangeKey, PinnedCommit] | None = None,
    main: MainHistory | None = None,
    published: Published | None = None,
    inputs: Inputs | None = None,
    known: Memory | None = None,
    here: Mapping[Cell, Judged] | None = None,
) -> Memory:
    """Write the site; the same input gives the same bytes, and no page is ever half written.

    `environments` come in the order of the table, oldest first, `dates` has the day of each
    release. What is no longer drawn is removed. With the digests of what it is drawn from, parts
    that `known` has are left as they lie there. Of cells in `here` the page of their case shows
    what was measured on this machine, and all others what `judged` has. What the next drawing may
    leave is returned.
    """
    view = survey(cases, environments, judged, dates, commits, main)
    site = Site(
        survey=view,
        here={cell: row for cell, row in (here or {}).items() if cell in view.rows},
        published=published or Published(),
        inputs=inputs,
        known=known or Memory(),
    )
    if not site.is_as_before:  # both processes need these
        standings(view), sides(view), site.whole
    parts = draw_both(_pages(site), _data(site), folder, site.known)
    _prune(folder, {name for part in parts.values() for name in part.files})
    return Memory(parts=parts, briefs=site.noted, cells=parts["cells"].noted)


def _prune(folder: Path, drawn: Collection[str]) -> None:
    below = (path for name in _PRUNED for path in (folder / name).rglob("*"))
    # A folder that was no site before may hold tables of somebody else.
    beside = folder.iterdir() if (folder / IDENTITY).exists() else ()
    for path in [*below, *(path for path in beside if path.suffix in _OURS)]:
        # A draft belongs to another run that is writing.
        is_ours = path.is_file() and path.suffix != ".draft"
        if is_ours and path.relative_to(folder).as_posix() not in drawn:
            path.unlink(missing_ok=True)


def asset(name: str) -> bytes:
    """Return a file as it is published: scripts without comments, which would take long to load."""
    content = (_STATIC / name).read_bytes()
    return _COMMENTS.sub(b"", content) if name.endswith(".js") else content


def _pages(site: Site) -> Iterator[SitePart]:
    """Yield the pages: those of each case, then those that many cases are on."""
    for name in site.survey.cases:
        yield SitePart(f"case/{name}", site.page_key(name), partial(_case, site, name))
    yield SitePart("pages", site.shared_key, partial(_shared_pages, site))


def _data(site: Site) -> Iterator[SitePart]:
    """Yield what needs no page of a case: the data of scripts and downloads, architectures."""
    yield SitePart("data", site.shared_key, partial(_scripts, site))
    # What of the table this machine measured, as far as it agrees with what is published.
    marked = assignment("measured", measured(site.survey, site.here))
    yield SitePart("measured", "", lambda: iter([("data/measured.js", marked)]))
    yield SitePart("cells", "", partial(_cells, site), lambda: site.cells)
    key = digest_of(site.inputs.common, "architectures") if site.inputs else ""
    yield SitePart("architectures", key, partial(_swept, site))


def _shared_pages(site: Site) -> Files:
    for name in ASSETS:
        yield name, asset(name)
    for template, pages_of in FOLDERS:
        for page in pages_of(site):
            yield page.path, _draw(site, template, page)
    for route in ROUTES:
        if route.name != _SWEPT:
            yield from written_page(site, route)
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
        feed=feed_of(page.path) if page.path.startswith(_WITH_A_FEED) else "",
        base_url=site.published.base_url,
        source=site.published.source,
        navigation=[Link(text=route.title, href=route.path) for route in ROUTES],
    )


def written_page(site: Site, route: PageRoute) -> Files:
    """Yield a page and the tables that it links to."""
    page = DrawnPage(route.path, route.context(site), site.whole)
    yield route.path, _draw(site, f"{route.path}.jinja", page)
    for table in route.tables(site):
        yield f"{table.path}.csv", encoded(as_csv(table.columns, table.rows))


def _scripts(site: Site) -> Files:
    """Yield the data that pages with scripts read."""
    view = site.survey
    yield "data/matrix.js", assignment("matrix", data(view))
    yield "data/about.js", assignment("about", about(view.cases.values()))
    yield "data/known.js", assignment("known", signatures(view, site.whole.brief))
    yield "data/compare.js", assignment("compared", compare_data(view))
    yield "data/decisions.js", assignment("decisions", decisions(view))
    yield "data/pins.js", assignment("pins", pins(view))
    yield "data/pasted.js", assignment("pasted", {"patterns": PATTERNS, "aliases": ALIASES})


def _swept(site: Site) -> Files:
    """Yield what the sweep published: the pages of architectures."""
    yield from written_page(site, next(route for route in ROUTES if route.name == _SWEPT))
    for page in site.architectures:
        drawn = DrawnPage(page.href, page, site.whole)
        yield page.href, _draw(site, "architecture.html.jinja", drawn)


def _cells(site: Site) -> Files:
    """Yield the file of all cells; members of a gzip file that follow each other are one text."""
    members = (content for _, (_, content) in sorted(site.cells.items()))
    yield "cells.csv.gz", packed([CELL_COLUMNS]) + b"".join(members)


def _exports(site: Site) -> Files:
    """Yield what lies beside the pages: badges, feeds, entries of the OSV format."""
    yield feed.MAIN, feed.written(feed.feed(site.news, site.published))
    for each in site.feeds.values():
        yield each.path, feed.written(each)
    for badge in site.badges:
        yield from badges.files(badge)
    yield from osv.files(site.entries)
