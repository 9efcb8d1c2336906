"""The site that the published evidence gives, for tests that look at it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repromatrix.reports.build import Published, render
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


def draw(folder: Path) -> Survey:
    """Render the site; return everything that it is about."""
    paths = Paths()
    loaded = project.load(paths)
    known, rows = site.judged_grid(loaded, list(answers.published_rows(paths)))
    environments = list(known.environments.values())
    dates = {release.name: release.date.isoformat() for release in known.matrix.releases}
    told = Published(
        publications=read_publications(paths.published),
        records=read_changes(paths.published),
        checkout=paths.root,
    )
    commits, main = published_commits(paths), published_history(paths)
    arranged = survey(loaded.cases, environments, rows, dates=dates, commits=commits, main=main)
    render(
        *(loaded.cases, environments, rows, folder),
        dates=dates,
        commits=commits,
        main=main,
        published=told,
    )
    return arranged
