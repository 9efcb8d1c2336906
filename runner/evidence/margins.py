"""How far cases stand off their thresholds over seeds: `margins.csv`, written by a check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from repromatrix.runner.evidence.tables import as_csv, read_rows
from repromatrix.runner.judging.margins import LEAST, Threshold
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Observation
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
        times_off = filter(None, (self.passing_times_off, self.failing_times_off))
        return any(float(times) < LEAST for times in times_off)

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


def row_of(case: Case, threshold: Threshold, seen: Sequence[tuple[str, Observation]]) -> MarginRow:
    """Return how far what a case measured stands off a threshold; each row has its seed."""
    values = [
        (threshold.times_off(value), row.cell, seed, value)
        for seed, row in seen
        if (value := row.measured.get(threshold.quantity)) is not None
    ]
    sides: list[str] = []
    for holds in (True, False):
        there = (each for each in values if threshold.holds(each[-1]) is holds)
        times_off, cell, seed, value = min(there, default=(0.0, None, "", 0.0))
        with_ = f" with {cell.workaround}" if cell and cell.workaround else ""
        at = f"{cell.precision} on {cell.environment}{with_}, seed {seed}" if cell else ""
        sides += [f"{value:.3g}", f"{times_off:.2f}", at] if cell else ["", "", ""]
    seeds = dict.fromkeys(seed for seed, _ in seen)
    cells = str(len({cell for _, cell, _, _ in values}))
    return MarginRow(case.name, case.digest, str(threshold), " ".join(seeds), cells, *sides)


def read_margins(paths: Paths) -> tuple[MarginRow, ...]:
    """Return the published rows, none without a file; raises RunnerError where it is damaged."""
    return read_rows(paths.published / NAME, MarginRow, _WRITTEN)


def as_text(rows: Iterable[MarginRow]) -> str:
    """Return the text of the file; the same rows give the same bytes."""
    return as_csv(MarginRow._fields, sorted(rows))
