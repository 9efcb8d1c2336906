"""The unexpected results, listed at the end of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repromatrix.runner.cli.progress import cell_name, what_happened
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.text import printable

if TYPE_CHECKING:
    from rich.console import Console

LISTED = 20


def say_unexpected(unexpected: Sequence[Judged], console: Console) -> None:
    """Print a line for each, as long as that can be read."""
    for one in unexpected[:LISTED]:
        seen = one.seen
        told = printable(f"{one.verdict}: {cell_name(seen)}: {what_happened(seen)}")
        console.print(f"  {told}", markup=False)
    say_rest(len(unexpected), console)


def say_rest(number: int, console: Console) -> None:
    """Print how many were not listed."""
    if number > LISTED:
        console.print(f"  … and {number - LISTED} more; the table has them all.")
