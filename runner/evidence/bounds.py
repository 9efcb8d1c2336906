"""What cases do where their requirements keep them out: `bounds.csv`, written by a check.

A bound such as `transformers>=5.0` is there because the case cannot run below it. Where the case
fails below it as it does above, the bound hides how long the bug has been there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from repromatrix.runner.evidence.tables import as_csv, read_rows
from repromatrix.runner.model.case import Case
from repromatrix.runner.paths import Paths

NAME = "bounds.csv"
_WRITTEN = "`nox -s checks -- bounds` writes this file; git has its last version."


class BoundRow(NamedTuple):
    """A cell outside the requirements of its case; all text, as in the file."""

    case: str
    case_digest: str
    environment: str
    precision: str
    outcome: str
    error: str
    """The first line of the error; empty for a pass."""
    hides: str
    """`yes` where it fails as the case describes."""


def read_bounds(path: Path) -> tuple[BoundRow, ...]:
    """Return the rows of a file, none without it; raises RunnerError where it is damaged."""
    return read_rows(path, BoundRow, _WRITTEN)


def hidden(paths: Paths, case: Case) -> tuple[BoundRow, ...]:
    """Return where the requirements of a case, as it stands, hide the failure that it describes."""
    rows = read_bounds(paths.published / NAME)
    mine = (row for row in rows if (row.case, row.case_digest) == (case.name, case.digest))
    return tuple(row for row in mine if row.hides == "yes")


def as_text(rows: Iterable[BoundRow]) -> str:
    """Return the text of the file; the same rows give the same bytes."""
    return as_csv(BoundRow._fields, sorted(rows))
