"""What is printed while cells run, and which of them were unexpected at the end."""

from __future__ import annotations

import math
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from repromatrix.runner.cli.options import Console
from repromatrix.runner.execution.run import RunListener
from repromatrix.runner.judging.verdicts import Judged, elsewhere
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.text import plural, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

LISTED = 20
"""How many cells are printed one by one."""
_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""
_TELLING = 3
"""After so many environments the time left can be told."""
_BEGINNING = 60
"""As many cells take as long as an environment takes before its first one."""
_NO_CASES: Mapping[str, Case] = {}
_SHOWN = 8
"""How many environments the display has room for."""


def cell_name(seen: Observation) -> str:
    """Return how a cell is called in messages: `case[workaround] bf16 on 4.50.0`."""
    cell = seen.cell
    variant = f"[{cell.workaround}]" if cell.workaround else ""
    return f"{cell.case}{variant} {cell.precision} on {cell.environment}"


def cell_text(seen: Observation) -> str:
    """Return a cell and what happened: `case bf16 on 4.50.0: fails: ValueError: it breaks`."""
    return f"{cell_name(seen)}: {seen.described}"


def core_seconds() -> float:
    """Return the processor time of this process and of what it started and has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def is_of_main(environment: str) -> bool:
    """Say whether an environment is `main`, with or without extras."""
    return environment.partition("+")[0] == MAIN


class ProgressDisplay(RunListener):
    """Shows a run: live on a terminal, in plain lines elsewhere; a context manager."""

    def __init__(
        self,
        console: Console,
        until: float = math.inf,
        *,
        wants_main: bool = True,
        cases: Mapping[str, Case] = _NO_CASES,
    ) -> None:
        """Show nothing yet; `until` is when the run ends, on the monotonic clock.

        Where nobody `wants_main`, nothing is said of a `main` that cannot be built.
        """
        self.console = console
        self.cases_by_name = cases
        self.wants_main = wants_main
        self.until = until
        self.doing: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.cells = 0
        self.done_cells = 0
        self.done_units = 0
        self.units = 0
        self.began_at = time.monotonic()
        self.printed_at = 0.0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells  {task.fields[rate]}{task.fields[left]}"),
            console=console,
        )
        self.task = self.bar.add_task("measuring", total=None, rate="", left="")
        self.live = Live(
            console=console, get_renderable=self._renderable, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def _renderable(self) -> RenderableType:
        lines = [Text(f"  {name}: {doing}", style="dim") for name, doing in self.doing.items()]
        return Group(self.bar, *lines[:_SHOWN])

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the display."""
        self.console.print(Text(text, style=style))

    def began(self, units: int, cells: int) -> None:
        """Show how much there is to do, beside what earlier runs of the same command did."""
        self.units, self.cells = self.units + units, self.cells + cells
        self.bar.update(self.task, total=self.cells)

    def phase(self, environment: str, doing: str) -> None:
        """Show what an environment does now."""
        self.doing[environment] = doing

    def measured(self, row: Observation, verdict: Verdict) -> None:
        """Count a cell; print it where it is repeated and unexpected, or unstable."""
        if row.repeats == 1:
            self.done_cells += 1
            self.counts[verdict] += 1
            seconds = max(0.001, time.monotonic() - self.began_at)
            rate = f"{self.done_cells / seconds:.1f}/s"
            self.bar.update(self.task, completed=self.done_cells, rate=rate, left=self._left())
        elif verdict.is_unexpected or row.unstable:
            word = "unstable: " if row.unstable else prefix(verdict, row, self.cases_by_name)
            self.say(f"  {word}{cell_text(row)}", "bold red")
        self._print_line()

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        """Print why an environment could not be built."""
        self.doing.pop(environment, None)
        self.cells -= cells
        self.bar.update(self.task, total=self.cells)
        if is_of_main(environment) and not self.wants_main:
            return
        self.say(f"  {environment} cannot be built ({plural(cells, 'cell')}): {reason}", "yellow")

    def done(self, environment: str) -> None:
        """Count an environment that has nothing left to run."""
        self.doing.pop(environment, None)
        self.done_units += 1
        self._print_line()

    def _print_line(self) -> None:
        """Print how far it is, now and then, where there is no terminal."""
        now = time.monotonic()
        if self.console.is_terminal or now - self.printed_at < _EVERY:
            return
        self.printed_at = now
        cells, units = plural(self.done_cells, "cell"), plural(self.done_units, "environment")
        if not math.isfinite(self.until):
            cells = f"{self.done_cells} of {plural(self.cells, 'cell')}"
            units = f"{self.done_units} of {plural(self.units, 'environment')}"
        self.say(f"  {cells}, {units}, {now - self.began_at:.0f} s{self._left()}")

    def _left(self) -> str:
        now = time.monotonic()
        if math.isfinite(self.until):
            seconds = max(0.0, self.until - now)
        elif self.done_units < _TELLING:
            return ""
        else:
            done = self.done_cells + _BEGINNING * (self.done_units + len(self.doing))
            whole = self.cells + _BEGINNING * self.units
            seconds = (now - self.began_at) * max(0, whole - done) / done
        return f", about {seconds / 60:.0f} min left"


class SearchProgress(RunListener):
    """Prints the runs of a search, a line each."""

    def __init__(self, console: Console) -> None:
        """Print nothing yet."""
        self.console = console
        self.began_at = time.monotonic()

    def began(self, _units: int, _cells: int) -> None:
        """Begin to count seconds."""
        self.began_at = time.monotonic()

    def phase(self, environment: str, doing: str) -> None:
        """Print which environment is asked."""
        if doing == "building":
            self.console.print(Text(f"  asking {environment} …", style="dim"))

    def measured(self, row: Observation, _verdict: Verdict) -> None:
        """Print a cell."""
        again = "" if row.repeats == 1 else " (repeated)" if not row.unstable else " (unstable)"
        seconds = time.monotonic() - self.began_at
        self.console.print(Text(f"  {cell_text(row)}{again}  ({seconds:.0f} s)"))

    def unbuilt(self, environment: str, reason: str, _cells: int) -> None:
        """Print why an environment could not be built."""
        self.console.print(Text(f"  {environment} cannot be built: {reason}", style="yellow"))


def expects_nothing(row: Observation, cases: Mapping[str, Case]) -> bool:
    """Say whether the case of a cell has no entry yet: then it is told as what it did."""
    case = cases.get(row.cell.case)
    return case is not None and not case.block.fails


def prefix(verdict: Verdict, row: Observation, cases: Mapping[str, Case]) -> str:
    """Return what stands before a cell that is unexpected."""
    return "" if expects_nothing(row, cases) else f"{verdict}: "


def print_unexpected(
    unexpected: Sequence[Judged], console: Console, cases: Mapping[str, Case] = _NO_CASES
) -> None:
    """Print the unexpected cells, a line each, as many as can be read."""
    for judged in unexpected[:LISTED]:
        place = f", in {where}" if (where := elsewhere(judged)) else ""
        line = printable(
            f"{prefix(judged.verdict, judged.seen, cases)}{cell_text(judged.seen)}{place}"
        )
        console.print(f"  {line}")
    print_rest(len(unexpected), console)


def print_rest(number: int, console: Console) -> None:
    """Print how many were not listed."""
    if number > LISTED:
        console.print(f"  … and {number - LISTED} more; the table has them all.")
