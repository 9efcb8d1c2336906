"""`report`: the site from evidence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner import project, rendering
from runner.errors import ExitCode, Fault, refuse
from runner.evidence import reading
from runner.writing import told

if TYPE_CHECKING:
    from rich.console import Console

    from runner.places import Places

_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")


def render_site(places: Places, console: Console, base_url: str = "") -> ExitCode:
    """Render from the published evidence and this machine's; say where the table is.

    Raises RunnerError for an address that is none.
    """
    address = _address(base_url)
    loaded = project.load(places)
    rows = reading.both(places, lambda text: console.print(text, style="yellow"))
    with told(rendering.index(places)):
        changed = rendering.render(loaded, rows, address)
    state = "" if changed else " (nothing had changed)"
    console.print(f"The table: {rendering.index(places)}{state}")
    return ExitCode.AS_EXPECTED


def _address(base_url: str) -> str:
    """Return the address of the site with one slash at its end."""
    if not base_url:
        return ""
    if not _ADDRESS.fullmatch(base_url):
        allowed = "an address that begins with https:// or http://"
        raise refuse(Fault(where="--base-url", found=base_url, allowed=allowed))
    return f"{base_url.rstrip('/')}/"
