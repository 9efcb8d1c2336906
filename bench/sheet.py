"""What a bench prints, kept part by part in `docs/performance.md`."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from drills.documents import put

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


class Sheet:
    """The rows of one part: printed as they come, written as a table at its end."""

    def __init__(self, part: str, page: Path = PAGE) -> None:
        """Nothing is measured yet; `part` names the place in the page."""
        self.part = part
        self.page = page
        self.rows: list[tuple[str, str, str]] = []

    def row(self, what: str, number: float, unit: str, note: str = "") -> None:
        """Print a number, and keep it."""
        figure = f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"
        print(f"{what:<44}{figure:>12} {unit:<6} {note}", flush=True)
        self.rows.append((what, f"{figure} {unit}", note))

    def table(self) -> str:
        """Return the rows as Markdown, with the machine that they were measured on."""
        rows = "\n".join(f"| {' | '.join(row)} |" for row in self.rows)
        return f"{machine()}\n\n| what | measured | note |\n| --- | ---: | --- |\n{rows}"

    def write(self) -> bool:
        """Put the table into its place in the page; say whether there is one."""
        return put(self.page, f"bench: {self.part}", self.table())


def machine() -> str:
    """Say what was measured on, as far as it bears on the figures."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({platform.machine()}, {platform.system()}), CPU only."
