"""How far cases stand off their thresholds over seeds: `margins.csv`, written by a check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from repromatrix.runner.evidence.tables import as_csv, read_rows
from repromatrix.runner.judging.margins import LEAST, Extreme, Margin
from repromatrix.runner.model.case import Case
from repromatrix.runner.paths import Paths

NAME = "margins.csv"
_WRITTEN = "`nox -s checks -- chance` writes this file; git has its last version."


class MarginRow(NamedTuple):
    """A threshold of a case over several seeds; all text, as in the file."""

    case: str
    case_digest: str
    threshold: str
    """As `relative_error < 0.05`."""
    seeds: str
    cells: str
    """How many cells measured the quantity, each with every seed."""
    passing: str
    """The passing value that is nearest to the threshold; empty where none passes."""
    passing_times_off: str
    passing_at: str
    """The cell and the seed of it."""
    failing: str
    failing_times_off: str
    failing_at: str

    @property
    def is_narrow(self) -> bool:
        """Whether a value stands nearer than it should."""
        return any(float(off) < LEAST for off in self._off)

    @property
    def words(self) -> str:
        """The row as a sentence."""
        sides = [
            f"passes at {self.passing} ({self.passing_times_off} times off, {self.passing_at})"
            if self.passing
            else "",
            f"fails at {self.failing} ({self.failing_times_off} times off, {self.failing_at})"
            if self.failing
            else "",
        ]
        return f"{self.threshold}: {'; '.join(filter(None, sides)) or 'nothing was measured'}."

    @property
    def _off(self) -> list[str]:
        return [off for off in (self.passing_times_off, self.failing_times_off) if off]


def row_of(case: Case, margin: Margin, seeds: Iterable[str], cells: int) -> MarginRow:
    """Return a margin as a row of the file."""
    return MarginRow(
        case.name,
        case.digest,
        str(margin.threshold),
        " ".join(seeds),
        str(cells),
        *_side(margin.passing),
        *_side(margin.failing),
    )


def _side(extreme: Extreme | None) -> tuple[str, str, str]:
    if extreme is None:
        return "", "", ""
    cell = extreme.cell
    with_ = f" with {cell.workaround}" if cell.workaround else ""
    at = f"{cell.precision} on {cell.environment}{with_}, seed {extreme.seed}"
    return f"{extreme.value:.3g}", f"{extreme.times_off:.2f}", at


def read_margins(paths: Paths) -> tuple[MarginRow, ...]:
    """Return the published rows, none without a file; raises RunnerError where it is damaged."""
    return read_rows(paths.published / NAME, MarginRow, _WRITTEN)


def as_text(rows: Iterable[MarginRow]) -> str:
    """Return the text of the file; the same rows give the same bytes."""
    return as_csv(MarginRow._fields, sorted(rows))
