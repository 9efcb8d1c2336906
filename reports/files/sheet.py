"""A table as CSV and JSON, to lie beside the page that shows it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    writer.writerows([_cell(value) for value in row] for row in sheet.rows)
    return text.getvalue()


def _cell(value: Value) -> Value:
    """Let no spreadsheet take a message for a formula."""
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
