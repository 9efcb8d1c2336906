"""The site that the published evidence gives, for tests that look at it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repromatrix.reports.build import render
from repromatrix.reports.view import survey
from repromatrix.runner import project, site
from repromatrix.runner.evidence import answers
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.reports.view import Survey


def draw(folder: Path) -> Survey:
    """Render the site; return everything that it is about."""
    loaded = project.load(Paths())
    known, rows = site.judged_grid(loaded, list(answers.published_rows(Paths())))
    environments = list(known.environments.values())
    dates = {release.name: release.date.isoformat() for release in known.matrix.releases}
    render(loaded.cases, environments, rows, folder, dates=dates)
    return survey(loaded.cases, environments, rows, dates=dates)
