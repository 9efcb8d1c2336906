"""A table as CSV and JSON, to lie beside the page that shows it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FORMULA = frozenset("=+-@\t\r")

Value = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """A table of plain values; `path` is where it lies below the site, without its ending."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def files(sheet: Sheet) -> Iterator[tuple[str, bytes]]:
    """Yield both files of a table: its path, and its content."""
    yield f"{sheet.path}.csv", _encoded(_csv(sheet))
    content = {"columns": sheet.columns, "rows": sheet.rows}
    yield f"{sheet.path}.json", _encoded(json.dumps(content, ensure_ascii=False))


def _csv(sheet: Sheet) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(sheet.columns)
    writer.writerows(_harmless(sheet.rows))
    return text.getvalue()


def _harmless(rows: Sequence[tuple[Value, ...]]) -> Sequence[tuple[Value, ...]]:
    """Let no spreadsheet take a message for a formula."""
    # Looked for in one go: a table has tens of thousands of values, and hardly one of them.
    found = {one for row in rows for one in row if one.__class__ is str and one[:1] in _FORMULA}
    if not found:
        return rows
    return [tuple(f"'{one}" if one in found else one for one in row) for row in rows]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
