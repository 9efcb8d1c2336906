"""What a check counts and measures: printed at once, and put into a document on request."""

from __future__ import annotations

import itertools
import operator
import os
import platform
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from repromatrix.runner.paths import ROOT

PAGES = (ROOT / "docs" / "reliability.md", ROOT / "docs" / "performance.md")
_COUNTS = "| tried | times | must not happen | times | note |\n| --- | ---: | --- | ---: | --- |"
_SHARED = operator.itemgetter(0, 1, 3)
_FIGURES = "| what | measured | note |\n| --- | ---: | --- |"


class Table:
    """The lines of a check, which passes where all was tried and nothing went wrong."""

    def __init__(self, check: str) -> None:
        self.check = check
        self.counts: list[tuple[str, int, str, int, str]] = []
        self.figures: list[tuple[str, str, str]] = []

    def count(self, tried: str, times: int, wrong: str, found: int, note: str = "") -> None:
        """Add what was tried how often, and what went wrong how often: it must be 0."""
        print(f"{tried} / {wrong}: {times:,} / {found:,}  {note}".rstrip(), flush=True)
        self.counts.append((tried, times, wrong, found, note))

    def row(self, what: str, number: float, unit: str, note: str = "") -> None:
        """Add a figure."""
        figure = f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"
        print(f"{what:<44}{figure:>12} {unit:<6} {note}".rstrip(), flush=True)
        self.figures.append((what, f"{figure} {unit}".strip(), note))

    @property
    def passed(self) -> bool:
        """Whether there are lines, each was tried, and nothing went wrong in any."""
        lines = self.counts or self.figures
        return bool(lines) and all(times and not wrong for _, times, _, wrong, _ in self.counts)

    @property
    def text(self) -> str:
        """The table in Markdown, with the day and the machine."""
        cores = len(os.sched_getaffinity(0))
        machine = f"{cores} cores ({platform.machine()}, {platform.system()}), CPU only"
        parts = [f"{datetime.now(UTC).date()}, {machine}."]
        for head, lines in ((_COUNTS, self._joined()), (_FIGURES, self.figures)):
            rows = [f"| {' | '.join(line)} |" for line in lines]
            parts += ["\n".join([head, *rows])] if rows else []
        return "\n\n".join(parts)

    def _joined(self) -> Iterator[tuple[str, ...]]:
        """Yield the lines of counts, with those in one that share their numbers."""
        for (tried, times, found), group in itertools.groupby(self.counts, _SHARED):
            wrong, notes = zip(*((line[2], line[4]) for line in group), strict=True)
            note = "; ".join(filter(None, notes))
            yield tried, f"{times:,}", "; ".join(wrong), f"{found:,}", note

    def write(self, pages: Sequence[Path] = PAGES) -> bool:
        """Put the table where a page has `<!-- check: NAME -->`; say whether one has."""
        place = re.compile(rf"(?s)(<!-- check: {re.escape(self.check)} -->\n).*?(<!-- end -->)")
        texts = {page: page.read_text() for page in pages}
        having = [page for page in pages if place.search(texts[page])]
        for page in having:
            page.write_text(place.sub(lambda one: f"{one[1]}{self.text}\n{one[2]}", texts[page]))
        return bool(having)
