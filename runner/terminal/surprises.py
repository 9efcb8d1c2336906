"""The cells that surprise, at the end of what made or brought them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.telling.wording import printable
from runner.terminal.progress import cell_name, what_happened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from runner.judging.verdicts import Judged

LISTED = 20


def say_surprises(surprises: Sequence[Judged], console: Console) -> None:
    """Print a line for each, as long as that can be read."""
    for one in surprises[:LISTED]:
        seen = one.seen
        told = printable(f"{one.verdict}: {cell_name(seen)}: {what_happened(seen)}")
        console.print(f"  {told}", markup=False)
    say_rest(len(surprises), console)


def say_rest(number: int, console: Console) -> None:
    """Print how many were not listed."""
    if number > LISTED:
        console.print(f"  … and {number - LISTED} more; the table has them all.")
