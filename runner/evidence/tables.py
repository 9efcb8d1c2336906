"""Small published tables: CSV with one row per named tuple, all text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from repromatrix.runner.evidence.database import addressed

_Row = TypeVar("_Row")


def read_rows(path: Path, row_type: Callable[..., _Row], written: str) -> tuple[_Row, ...]:
    """Return the rows of a file, none without it.

    Raises RunnerError where it is damaged; `written` says what writes it.
    """
    if not path.exists():
        return ()
    with addressed(path.name, written):
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
        return tuple(row_type(**row) for row in rows)


def as_csv(fields: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the text of a table; the same rows give the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(rows)
    return text.getvalue()
