"""The site that the published evidence gives, for tests that look at it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

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
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from repromatrix.reports.view import Survey
    from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
    from repromatrix.runner.evidence.history import MainHistory
    from repromatrix.runner.judging.verdicts import Judged
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment

    _Arranged = tuple[Mapping[str, Case], Sequence[Environment], Sequence[Judged]]


class _More(TypedDict):
    dates: Mapping[str, str]
    commits: Mapping[ChangeKey, PinnedCommit]
    main: MainHistory | None


def draw(folder: Path) -> None:
    """Render the site."""
    paths = Paths()
    told = Published(
        publications=read_publications(paths.published),
        records=read_changes(paths.published),
        checkout=paths.root,
    )
    arranged, more = _published(paths)
    render(*arranged, folder, published=told, **more)


def surveyed() -> Survey:
    """Return everything that the site is about, without rendering it."""
    arranged, more = _published(Paths())
    return survey(*arranged, **more)


def _published(paths: Paths) -> tuple[_Arranged, _More]:
    """Return what a site is made from, in the order in which that is asked for, and by name."""
    loaded = project.load(paths)
    known, rows = site.judged_grid(loaded, list(answers.published_rows(paths)))
    dates = {release.name: release.date.isoformat() for release in known.matrix.releases}
    commits, main = published_commits(paths), published_history(paths)
    more: _More = {"dates": dates, "commits": commits, "main": main}
    return (loaded.cases, list(known.environments.values()), rows), more
