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


def say_suspicions(judged: Sequence[Judged], console: Console) -> None:
    """Print a line for each cell that wants far more memory than its neighbours."""
    found = [one for one in judged if one.suspected]
    for one in found[:LISTED]:
        why = one.suspected.text if one.suspected else ""
        console.print(f"  {printable(f'{cell_name(one.seen)}: {why}')}", markup=False)
    say_rest(len(found), console)


def say_rest(number: int, console: Console) -> None:
    """Print how many were not listed."""
    if number > LISTED:
        console.print(f"  … and {number - LISTED} more; the table has them all.")
