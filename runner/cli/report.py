"""`report`: the site rendered from evidence; also during a run and at its end."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.runner import project, site
from repromatrix.runner.cli.options import Console, command, demand_site, line_printer
from repromatrix.runner.errors import ExitCode, InvalidValue, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.files import UnwritableError
from repromatrix.runner.files import told as writing
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project

EVERY = 60.0
"""Seconds between two renderings during a run, at least."""
SHARE = 0.02
"""The part of a run's time that may go into pages that the next ones replace."""
_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")


@command("report", collect=False)
def render_site(
    paths: Paths,
    console: Console,
    base_url: Annotated[
        str,
        typer.Option(
            metavar="URL", help="The address of the published site, for its feed and links."
        ),
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            metavar="URL", help="The address of the repository on GitHub, for links to its forms."
        ),
    ] = "",
) -> ExitCode:
    """Render the site from local and published evidence.

    Raises RunnerError for a URL that is no address.
    """
    demand_site("report")
    address = site_address(base_url)
    repository = checked_address("--source", source).rstrip("/").removesuffix(".git")
    say = line_printer(console, "yellow")
    with writing(site.index(paths)):
        published = site.published_inputs(paths, address, repository)
        stored = answers.stored(paths, say)
        changed = not site.is_drawn(paths, site.with_local(published, stored))
        if changed:  # only then what is published is read
            rows = [*answers.published_rows(paths), *stored]
            addresses = (address, repository)
            changed = site.render(project.load(paths), rows, published, addresses=addresses)
    state = "" if changed else " (nothing had changed)"
    console.print(f"The table: {site.index(paths)}{state}")
    return ExitCode.AS_EXPECTED


def site_address(base_url: str) -> str:
    """Return what addresses of pages begin with; empty for none. Raises RunnerError."""
    return f"{checked_address('--base-url', base_url).rstrip('/')}/" if base_url else ""


def checked_address(option: str, url: str) -> str:
    """Return the value of an option that may be empty; raises RunnerError if it is no address."""
    if url and not _ADDRESS.fullmatch(url):
        expected = "an address that begins with https:// or http://"
        raise refuse(InvalidValue(option, url, expected))
    return url


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedSite:
    """What the pages show: every row that there is, and the whole grid with its verdicts."""

    rows: Sequence[Observation]
    grid: Sequence[Judged]


class SiteUpdates:
    """Renders the site of a run: after the first environment, now and then, and at the end."""

    def __init__(self, loaded: Project, store: Store, stored: list[Observation], jobs: int) -> None:
        """Render nothing yet; `stored` is what the store held when the run began."""
        self.project = loaded
        self.store = store
        self.stored = stored
        self.jobs = jobs
        self.began = time.monotonic()
        self.first = 0.0
        """Seconds after which the site was rendered for the first time."""
        self.cost = 0.0
        self.last = float("-inf")
        self.undrawn: UnwritableError | None = None
        """Why the last rendering could not be written."""
        # Cores wait while the first environment starts, and again while the pages are drawn.
        ahead = ThreadPoolExecutor(1)
        self.published = ahead.submit(self._prepare)
        ahead.shutdown(wait=False)

    def _prepare(self) -> list[Observation]:
        site.prepare()

        self.inputs = site.published_inputs(self.project.paths)
        return list(answers.published_rows(self.project.paths))

    def render_if_due(self, left: int) -> None:
        """Render if it is time to, with that many environments left to run."""
        if is_due(time.monotonic() - self.last, self.cost, left, self.jobs):
            self.render()

    def render(self) -> RenderedSite:
        """Render, and return what is shown."""
        begin = time.monotonic()
        stored = self.store.rows() if self.store.written else self.stored
        rows = [*self.published.result(), *stored]
        meant = site.judged_grid(self.project, rows)
        try:
            with writing(site.index(self.project.paths)):
                site.render(self.project, rows, self.inputs, meant)
            self.undrawn = None
        except UnwritableError as error:
            self.undrawn = error  # the run goes on: its results are kept elsewhere
        self.last = time.monotonic()
        self.cost = self.last - begin
        self.first = self.first or self.last - self.began
        return RenderedSite(rows=rows, grid=meant[1])


def is_due(since: float, cost: float, left: int, jobs: int) -> bool:
    """Return whether the site is worth rendering during a run.

    `since` is how many seconds ago it was rendered, `cost` how many that took. Where no more
    environments are left than run at once, the end is near, and with it the last rendering.
    """
    return left > jobs and since > max(EVERY, cost / SHARE)
