"""The site that the published evidence gives, for tests that look at it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repromatrix.reports.build import ASSETS, ROUTES, asset, render, written_page
from repromatrix.reports.exports.decisions import decisions
from repromatrix.reports.exports.matrix_js import assignment
from repromatrix.reports.site import Published, Site
from repromatrix.reports.view import survey
from repromatrix.runner import project, site
from repromatrix.runner.audit.pasted import ALIASES, PATTERNS
from repromatrix.runner.compare.snapshots import read_changes
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import published_commits
from repromatrix.runner.evidence.history import published_history
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.reports.view import Survey
    from repromatrix.runner.project import Project


def draw(folder: Path) -> None:
    """Render the site."""
    paths = Paths()
    loaded = project.load(paths)
    known, rows = site.judged_grid(loaded, list(answers.published_rows(paths)))
    told = Published(
        publications=read_publications(paths.published),
        records=read_changes(paths.published),
    )
    render(
        *(loaded.cases, list(known.environments.values()), rows, folder),
        dates={release.name: release.date.isoformat() for release in known.matrix.releases},
        commits=published_commits(paths),
        main=published_history(paths),
        published=told,
    )


def surveyed(loaded: Project | None = None) -> Survey:
    """Return the cells that the site is about, without rendering it."""
    loaded = loaded or project.load(Paths())
    known, rows = site.judged_grid(loaded, list(answers.published_rows(loaded.paths)))
    return survey(loaded.cases, list(known.environments.values()), rows)


def draw_check(folder: Path, loaded: Project) -> None:
    """Write the page that checks versions alone, with its tables and scripts."""
    drawn = Site(survey=surveyed(loaded), published=Published())
    route = next(route for route in ROUTES if route.name == "check")
    files = {
        **dict(written_page(drawn, route)),
        "data/decisions.js": assignment("decisions", decisions(drawn.survey)),
        "data/pasted.js": assignment("pasted", {"patterns": PATTERNS, "aliases": ALIASES}),
        **{name: asset(name) for name in ASSETS},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
