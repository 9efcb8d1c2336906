"""What a drill counts, kept part by part in `docs/reliability.md`: tries on the left of a slash,
and on its right what must not happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drills.documents import put

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

    def table(self) -> str:
        """Return the counts as Markdown."""
        head = (
            "| tried | times | must not happen | times | note |\n| --- | ---: | --- | ---: | --- |"
        )
        rows = (
            f"| {one.tried} | {one.times:,} | {one.wrong} | {one.found:,} | {one.note} |"
            for one in self.counts
        )
        return "\n".join([head, *rows])

    def write(self) -> bool:
        """Put the table into its place in the page; say whether there is one."""
        return put(self.page, f"drill: {self.drill}", self.table())
