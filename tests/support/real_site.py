"""The site that the published evidence gives, for tests that look at it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repromatrix.reports.build import render
from repromatrix.reports.site import Published
from repromatrix.reports.view import survey
from repromatrix.runner import project, site
from repromatrix.runner.compare.snapshots import read_changes
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import published_commits
from repromatrix.runner.evidence.history import published_history
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.reports.view import Survey


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


def surveyed() -> Survey:
    """Return the cells that the site is about, without rendering it."""
    paths = Paths()
    loaded = project.load(paths)
    known, rows = site.judged_grid(loaded, list(answers.published_rows(paths)))
    return survey(loaded.cases, list(known.environments.values()), rows)
