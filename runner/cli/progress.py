"""The progress of a run: one live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from repromatrix.runner.execution.run import RunListener
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_EVERY = 15.0
_SHOWN = 8


def cell_name(seen: Observation) -> str:
    """Return how a cell is called in messages: `case[workaround] bf16 on 4.50.0`."""
    cell = seen.cell
    variant = f"[{cell.workaround}]" if cell.workaround else ""
    return f"{cell.case}{variant} {cell.precision} on {cell.environment}"


def what_happened(seen: Observation) -> str:
    """Return an outcome with its first line."""
    detail = seen.failed.headline if seen.failed else seen.reason
    return f"{seen.outcome}: {detail[:160]}" if detail else str(seen.outcome)


class ProgressDisplay(RunListener):
    """Watches a run; use it as a context, so that the terminal is left as it was found."""

    def __init__(self, console: Console) -> None:
        """Live when the console is a terminal."""
        self.console = console
        self.doing: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.cells = 0
        self.done_cells = 0
        self.done_units = 0
        self.units = 0
        self.began_at = time.monotonic()
        self.told_at = 0.0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells  {task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.bar.add_task("measuring", total=None, rate="")
        self.live = Live(
            console=console, get_renderable=self._shown, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def _shown(self) -> RenderableType:
        lines = [Text(f"  {name}: {doing}", style="dim") for name, doing in self.doing.items()]
        return Group(self.bar, *lines[:_SHOWN])

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the display."""
        self.console.print(Text(text, style=style))

    def began(self, units: int, cells: int) -> None:
        """Hear how much there is to do."""
        self.units, self.cells = units, cells
        self.bar.update(self.task, total=cells)

    def phase(self, environment: str, doing: str) -> None:
        """Hear what an environment does now."""
        self.doing[environment] = doing

    def measured(self, row: Observation, verdict: Verdict) -> None:
        """Hear of one cell."""
        if row.repeats == 1:
            self.done_cells += 1
            self.counts[verdict] += 1
            seconds = max(0.001, time.monotonic() - self.began_at)
            rate = f"{self.done_cells / seconds:.1f}/s"
            self.bar.update(self.task, completed=self.done_cells, rate=rate)
        elif verdict.is_unexpected or row.unstable:
            word = "unstable" if row.unstable else str(verdict)
            self.say(f"  {word}: {cell_name(row)}: {what_happened(row)}", "bold red")
        self._tell()

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        """Hear that an environment could not be made."""
        self.doing.pop(environment, None)
        self.cells -= cells
        self.bar.update(self.task, total=self.cells)
        self.say(f"  unbuildable: {environment} ({cells} cells): {reason}", "yellow")

    def done(self, environment: str) -> None:
        """Hear that an environment has nothing left to run."""
        self.doing.pop(environment, None)
        self.done_units += 1
        self._tell()

    def _tell(self) -> None:
        """Without a terminal: a line now and then."""
        now = time.monotonic()
        if self.console.is_terminal or now - self.told_at < _EVERY:
            return
        self.told_at = now
        seconds = now - self.began_at
        self.say(
            f"  {self.done_cells} of {self.cells} cells, {self.done_units} of {self.units}"
            f" environments, {seconds:.0f} s{self._left(seconds)}"
        )

    def _left(self, seconds: float) -> str:
        """Say how long it may take, once there is something to tell it by."""
        if not self.done_units:
            return ""
        left = seconds / max(1, self.done_cells) * max(0, self.cells - self.done_cells)
        return f", about {left / 60:.0f} min left"
