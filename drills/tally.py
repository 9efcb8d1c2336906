"""What a drill counts, kept part by part in `docs/reliability.md`: tries on the left of a slash,
and on its right what must not happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drills.documents import put, taken

_HEAD = ("| tried | times | must not happen | times | note |", "| --- | ---: | --- | ---: | --- |")
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """One line: what was tried how often, and what went wrong how often."""

    tried: str
    times: int
    wrong: str
    found: int
    note: str = ""


class Tally:
    """The counts of one drill: printed as they come, written as a table at its end."""

    def __init__(self, drill: str, page: Path = PAGE) -> None:
        """Nothing is counted yet; `drill` names the place in the page."""
        self.drill = drill
        self.page = page
        self.counts: list[Count] = []
        self.is_part = False
        """Whether only some of the drill was run: lines of the rest stay in the table."""

    def count(self, tried: str, times: int, wrong: str, found: int, note: str = "") -> None:
        """Print a line, and keep it; `found` must be 0 for the drill to pass."""
        one = Count(tried=tried, times=times, wrong=wrong, found=found, note=note)
        print(f"{tried} / {wrong}: {times:,} / {found:,}  {note}".rstrip(), flush=True)
        self.counts.append(one)

    @property
    def passed(self) -> bool:
        """Say whether something was tried, in every line, and nothing went wrong."""
        tried = bool(self.counts) and all(one.times for one in self.counts)
        return tried and not any(one.found for one in self.counts)

    def table(self, before: str = "") -> str:
        """Return the counts as Markdown; `before` is a table whose other lines stay."""
        rows = [
            f"| {one.tried} | {one.times:,} | {one.wrong} | {one.found:,} | {one.note} |"
            for one in self.counts
        ]
        there = {_what(row): row for row in [*before.splitlines()[len(_HEAD) :], *rows]}
        return "\n".join([*_HEAD, *there.values()])

    def write(self) -> bool:
        """Put the table into its place in the page; say whether there is one."""
        place = f"drill: {self.drill}"
        return put(self.page, place, self.table(taken(self.page, place) if self.is_part else ""))


def _what(row: str) -> tuple[str, str]:
    """Return what a line of a table is about: what was tried, and what must not happen."""
    cells = row.split(" | ")
    return cells[0], cells[2]
