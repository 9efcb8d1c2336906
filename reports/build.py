"""Build the site: one static folder that opens from disk, written whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repromatrix.reports.drawing import drawn
from repromatrix.reports.exports import badges, feed, osv
from repromatrix.reports.exports.matrix_js import assignment, data
from repromatrix.reports.exports.pins import pins
from repromatrix.reports.exports.rows import (
    ExportTable,
    as_csv,
    as_json,
    case_sheet,
    encoded,
    listed,
    tabulate,
)
from repromatrix.reports.exports.rows import files as both
from repromatrix.reports.pages.case import case_page
from repromatrix.reports.pages.changes import changes, changes_sheet
from repromatrix.reports.pages.claims import claims, claims_sheet
from repromatrix.reports.pages.index import SCRIPTS, index
from repromatrix.reports.pages.model import Family, families, family_sheet
from repromatrix.reports.pages.package import PackagePage, package_sheet, packages
from repromatrix.reports.pages.release import ReleasePage, Releases, address_of, failing_sheet
from repromatrix.reports.sections import release_changes as steps_of
from repromatrix.reports.sections.messages import signatures
from repromatrix.reports.sections.provenance import MeasuredOn, Settings
from repromatrix.reports.view import Survey, survey
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment

Files = Iterator[tuple[str, bytes]]
Draw = Callable[..., bytes]
"""Takes the name of a template, the context of its page and the way to the first page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The publications by name, what each changed, newest first, and the address of the site."""

    publications: Mapping[str, Publication] = field(default_factory=dict)
    records: tuple[SnapshotRecord, ...] = ()
    base_url: str = ""
    """Ends in a slash; empty where the site has no address."""

    @property
    def newest(self) -> Publication | None:
        """The newest publication; None where nothing was published."""
        return max(self.publications.values(), key=lambda one: (one.date, one.name), default=None)


ASSETS = ("index.css", *(name for name in SCRIPTS if not name.startswith("data/")))


def first_page_files(survey: Survey, setting: MeasuredOn) -> Iterator[tuple[str, bytes]]:
    """Yield the data and the tables: the path of each below the site, and its content."""
    yield "data/matrix.js", assignment("matrix", data(survey))
    yield "data/known.js", assignment("known", signatures(survey, setting.brief))
    columns, rows = listed(survey.rows.values(), survey.order)
    yield "cells.csv", encoded(as_csv(columns, rows))
    yield "cells.json", as_json(tabulate(survey.rows.values(), survey.order)).encode()


FOLDERS = ("badge", "case", "download", "model", "osv", "package", "release")
"""Below these a file that is no longer drawn is removed."""

_UP = "../"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A release in the list of all."""

    href: str
    page: ReleasePage


def draw_pages(survey: Survey, published: Published, settings: Settings, drawn: Draw) -> Files:
    """Yield every file behind the first page: its path below the site, and its content."""
    cases = {name: case_page(survey, case) for name, case in survey.cases.items()}
    of_case = {name: settings.of_cases((name,), "this case") for name in cases}
    for name, page in cases.items():
        yield f"case/{name}.html", drawn("case.html.jinja", page, _UP, of_case[name])
        if page.pinned is not None:
            yield page.pinned.path, page.pinned.text.encode("utf-8", "backslashreplace")
    yield "data/pins.js", assignment("pins", pins(survey))
    yield from _releases(survey, settings, drawn)
    found = families(survey, {name: cases[name].workarounds for name in cases})
    yield from _models(found, settings, drawn)
    yield from _changes(survey, published, settings.whole(), drawn)
    told = claims({name: page.claims for name, page in cases.items()})
    yield "claims.html", drawn("claims.html.jinja", told, "")
    yield from both(claims_sheet(told))
    for name in survey.cases:
        yield from both(case_sheet(survey, name))
    for badge in badges.badges(survey, settings):
        yield from badges.files(badge)
    told_of = {name: of_case[name].sentences for name in cases}
    yield from osv.entries(survey, published, told_of)


def _releases(survey: Survey, settings: Settings, drawn: Draw) -> Files:
    steps = steps_of.between(survey)
    arranged = Releases(survey, steps)
    listed = [Listed(href=address_of(name), page=arranged.page(name)) for name in survey.releases]
    yield "releases.html", drawn("releases.html.jinja", listed, "")
    yield from both(
        ExportTable(path="releases", columns=steps_of.COLUMNS, rows=steps_of.rows(steps))
    )
    for name, one in zip(survey.releases, listed, strict=True):
        of_release = settings.of_release(name)
        yield f"release/{name}.html", drawn("release.html.jinja", one.page, _UP, of_release)
        yield from both(failing_sheet(one.page))
        if name in steps:
            rows = steps_of.rows({name: steps[name]})
            yield from both(
                ExportTable(path=f"release/{name}-changes", columns=steps_of.COLUMNS, rows=rows)
            )
    yield from _packages(packages(survey, steps), settings, drawn)


def _packages(found: Sequence[PackagePage], settings: Settings, drawn: Draw) -> Files:
    yield "packages.html", drawn("packages.html.jinja", found, "")
    for page in found:
        installed = settings.with_package(page.name)
        yield page.href, drawn("package.html.jinja", page, _UP, installed)
        yield from both(package_sheet(page))


def _models(found: Sequence[Family], settings: Settings, drawn: Draw) -> Files:
    yield "models.html", drawn("models.html.jinja", found, "")
    for family in found:
        of_family = settings.of_cases((one.case for one in family.members), "these cases")
        yield family.path, drawn("model.html.jinja", family, _UP, of_family)
        yield from both(family_sheet(family))


def _changes(survey: Survey, published: Published, setting: MeasuredOn, drawn: Draw) -> Files:
    page = changes(survey, published)
    yield "changes.html", drawn("changes.html.jinja", page, "")
    yield from both(changes_sheet(page.acts))
    yield "feed.xml", feed.written(feed.feed(page, published, setting.sentences))


_STATIC = Path(__file__).parent / "static"
_ASSETS = ("style.css", "pages.css", "grid.js", "pinned.js", *ASSETS)


def render(  # noqa: PLR0913 - what is drawn, and where to
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    folder: Path,
    *,
    areas: Mapping[str, str] | None = None,
    note: str = "",
    published: Published | None = None,
) -> None:
    """Write the site; the same input gives the same bytes, and no page is ever half written.

    `environments` come in the order of the table, oldest first. `areas` gives titles, in the order
    of the page. `note` is one sentence for the headline. What is no longer drawn is removed.
    """
    found = survey(cases, environments, judged, areas)
    pages = dict(draw(found, note, published or Published()))
    for parent in {(folder / name).parent for name in pages}:
        parent.mkdir(parents=True, exist_ok=True)
    for name, content in pages.items():
        _write(folder / name, content)
    for left in _files(folder):
        if left.relative_to(folder).as_posix() not in pages:
            left.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    """Yield what lies in our folders; a draft belongs to somebody who is writing."""
    for name in FOLDERS:
        found = (folder / name).rglob("*")
        yield from (path for path in found if path.is_file() and path.suffix != ".draft")


def draw(
    found: Survey, note: str = "", published: Published | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the site: its path below the folder, and its content."""
    for name in _ASSETS:
        yield name, (_STATIC / name).read_bytes()
    settings, known = Settings(found), published or Published()
    whole = settings.whole()

    def draw_page(template: str, page: object, root: str, setting: MeasuredOn = whole) -> bytes:
        return drawn(template, page=page, root=root, setting=setting, base_url=known.base_url)

    yield from draw_pages(found, known, settings, draw_page)
    yield from first_page_files(found, whole)
    yield "index.html", draw_page("index.html.jinja", index(found, note), "")


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
