"""`report`: the site from evidence."""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project, site
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.files import told as writing
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from rich.console import Console

_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")


@app.command("report")
def report(
    base_url: Annotated[
        str,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="The address of the published site, for its feed and links.",
        ),
    ] = "",
) -> None:
    """Render the site from local and published evidence."""
    gc.disable()
    raise typer.Exit(render_site(Paths(), told(), base_url))


def render_site(places: Paths, console: Console, base_url: str = "") -> ExitCode:
    """Render from the published evidence and this machine's; say where the table is.

    Raises RunnerError for an address that is none.
    """
    address = _address(base_url)
    loaded = project.load(places)
    rows = answers.both(places, lambda text: console.print(text, style="yellow"))
    with writing(site.index(places)):
        changed = site.render(loaded, rows, address)
    state = "" if changed else " (nothing had changed)"
    console.print(f"The table: {site.index(places)}{state}")
    return ExitCode.AS_EXPECTED


def _address(base_url: str) -> str:
    """Return the address of the site with one slash at its end."""
    if not base_url:
        return ""
    if not _ADDRESS.fullmatch(base_url):
        allowed = "an address that begins with https:// or http://"
        raise refuse(OldFault(where="--base-url", found=base_url, allowed=allowed))
    return f"{base_url.rstrip('/')}/"
