"""`report`: the site from evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner import project, rendering
from runner.errors import ExitCode
from runner.evidence import reading

if TYPE_CHECKING:
    from rich.console import Console

    from runner.places import Places


def render_site(places: Places, console: Console) -> ExitCode:
    """Render from the published evidence and this machine's; say where the table is."""
    loaded = project.load(places)
    rows = reading.both(places, lambda text: console.print(text, style="yellow"))
    changed = rendering.render(loaded, rows)
    state = "" if changed else " (nothing had changed)"
    console.print(f"The table: {rendering.index(places)}{state}")
    return ExitCode.AS_EXPECTED
