"""The steps of a search as they come, a line each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from repromatrix.runner.cli.progress import cell_name, what_happened
from repromatrix.runner.execution.run import RunListener
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict

if TYPE_CHECKING:
    from rich.console import Console


class SearchProgress(RunListener):
    """Watches the runs of a search."""

    def __init__(self, console: Console) -> None:
        """Say nothing yet."""
        self.console = console
        self.began_at = time.monotonic()

    def began(self, _units: int, _cells: int) -> None:
        """Hear that a run begins."""
        self.began_at = time.monotonic()

    def phase(self, environment: str, doing: str) -> None:
        """Hear what an environment does now."""
        if doing == "building":
            self.console.print(Text(f"  asking {environment} …", style="dim"))

    def measured(self, row: Observation, _verdict: Verdict) -> None:
        """Hear of one cell."""
        again = "" if row.repeats == 1 else " (repeated)" if not row.unstable else " (unstable)"
        seconds = time.monotonic() - self.began_at
        said = f"  {cell_name(row)}: {what_happened(row)}{again}  ({seconds:.0f} s)"
        self.console.print(Text(said))

    def unbuilt(self, environment: str, reason: str, _cells: int) -> None:
        """Hear that an environment could not be made."""
        self.console.print(Text(f"  {environment} cannot be built: {reason}", style="yellow"))
