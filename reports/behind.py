"""Every file behind the first page: cases, releases, models, packages, and what lies beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import between as steps_of
from reports.casepage import case_page
from reports.files import badges, feed, osv
from reports.files.cases import case_sheet
from reports.files.pinned import pins
from reports.files.sheet import Sheet
from reports.files.sheet import files as both
from reports.pages.changes import changes, changes_sheet
from reports.pages.claims import claims, claims_sheet
from reports.pages.family import Family, families, family_sheet
from reports.pages.package import PackagePage, package_sheet, packages
from reports.pages.release import ReleasePage, Releases, address_of, failing_sheet
from reports.script import assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reports.publishing import Published
    from reports.setting import Setting, Settings
    from reports.survey import Survey

    Files = Iterator[tuple[str, bytes]]
    Draw = Callable[..., bytes]
    """Takes the name of a template, the context of its page and the way to the first page."""

FOLDERS = ("badge", "case", "download", "model", "osv", "package", "release")
"""Below these a file that is no longer drawn is removed."""

_UP = "../"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A release in the list of all."""

    href: str
    page: ReleasePage


def draw(survey: Survey, published: Published, settings: Settings, drawn: Draw) -> Files:
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
    yield from both(Sheet(path="releases", columns=steps_of.COLUMNS, rows=steps_of.rows(steps)))
    for name, one in zip(survey.releases, listed, strict=True):
        of_release = settings.of_release(name)
        yield f"release/{name}.html", drawn("release.html.jinja", one.page, _UP, of_release)
        yield from both(failing_sheet(one.page))
        if name in steps:
            rows = steps_of.rows({name: steps[name]})
            yield from both(
                Sheet(path=f"release/{name}-changes", columns=steps_of.COLUMNS, rows=rows)
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


def _changes(survey: Survey, published: Published, setting: Setting, drawn: Draw) -> Files:
    page = changes(survey, published)
    yield "changes.html", drawn("changes.html.jinja", page, "")
    yield from both(changes_sheet(page.acts))
    yield "feed.xml", feed.written(feed.feed(page, published, setting.sentences))
