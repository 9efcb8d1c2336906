"""Judged observations as tables: what `results` prints, CSV and JSON files, pandas frames."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.outcomes import Precision

if TYPE_CHECKING:
    import pandas as pd

    from repromatrix.reports.view import Survey

Value = str | int | float | bool | None

COLUMNS = (
    *("case", "workaround", "release", "precision", "device", "outcome", "verdict", "error"),
    *("exercised", "transformers", "accelerate", "peft", "torch", "seconds"),
)
"""What `results -- --format csv` prints; other people's scripts depend on names and order."""

WIDE = (
    *("unstable", "stale", "simulated", "repeats", "source", "reason", "signature"),
    *("disputed", "peak", "where", "scope"),
)
"""What `--wide` adds."""

_PLACES = {precision: place for place, precision in enumerate(Precision)}


def listed(
    judged: Iterable[Judged],
    order: Sequence[str],
    *,
    wide: bool = False,
    simulated: Collection[str] = (),
    scopes: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
    """Return the columns, and one row per judged observation; `order` is that of environments.

    `simulated` names the cases that use a stand-in for a real part; `scopes` has the precisions in
    which the bugs of a case fail.
    """
    rows = in_order(judged, order)
    if not wide:
        return COLUMNS, [_row(one) for one in rows]
    return (*COLUMNS, *WIDE), [
        (*_row(one), *_flags(one, simulated), scopes.get(one.seen.cell.case, "")) for one in rows
    ]


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """Return rows as CSV: unknown values are empty, and no text is a formula of a spreadsheet."""
    return _lines([columns]) + _lines(rows)


def _lines(rows: Iterable[Sequence[Value]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_without_formulas(list(rows)))
    return text.getvalue()


_FORMULA = frozenset("=+-@\t\r")


def _without_formulas(rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
    """Put an apostrophe before each text that a spreadsheet would take for a formula."""
    # Searched at once: a table has tens of thousands of values, and hardly any is one.
    values = {*chain.from_iterable(rows)}
    formulas = {value for value in values if isinstance(value, str) and value[:1] in _FORMULA}
    if not formulas:
        return rows
    return [[f"'{value}" if value in formulas else value for value in row] for row in rows]


def in_order(judged: Iterable[Judged], order: Sequence[str]) -> list[Judged]:
    """Sort by case, workaround, release, precision and device; unknown releases come last."""
    rank = {name: position for position, name in enumerate(order)}

    def place(row: Judged) -> tuple[str, str, int, str, int, str, str]:
        case, workaround, release, precision, device = row.seen.cell
        position = rank.get(release, len(rank))
        return case, workaround, position, release, _PLACES[precision], device, row.seen.source

    return sorted(judged, key=place)


def _row(row: Judged) -> tuple[Value, ...]:
    seen = row.seen
    case, workaround, release, precision, device = seen.cell
    ran, failed = seen.provenance, seen.failed
    package = ran.packages.get
    return (  # words of an enum as they are: they are texts, and asking for their value is slow
        case,
        workaround,
        release,
        precision,
        device,
        seen.outcome,
        row.verdict,
        "" if failed is None else failed.headline,
        seen.exercised,
        package("transformers", ""),
        package("accelerate", ""),
        package("peft", ""),
        ran.torch_build,
        seen.seconds,
    )


def _flags(row: Judged, simulated: Collection[str]) -> tuple[Value, ...]:
    seen, failed = row.seen, row.seen.failed
    return (
        seen.unstable,
        row.stale,
        seen.cell.case in simulated,
        seen.repeats,
        seen.source,
        seen.reason,
        failed.signature if failed is not None else "",
        dispute(seen),
        seen.memory.peak if seen.memory is not None else None,
        failed.place if failed is not None else "",
    )


def tabulate(
    judged: Iterable[Judged],
    order: Sequence[str],
    *,
    wide: bool = False,
    simulated: Collection[str] = (),
    scopes: Mapping[str, str] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return one row per judged observation; the arguments are those of `listed`."""
    import pandas as pd  # noqa: PLC0415 - half a second, and `results` as CSV does without

    columns, rows = listed(judged, order, wide=wide, simulated=simulated, scopes=scopes)
    frame = pd.DataFrame.from_records(rows, columns=[*columns])
    return frame.astype({"seconds": "float64"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportTable:
    """A table of plain values; `path` is its file below the site, without the ending."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def encoded(text: str) -> bytes:
    """Return a text as UTF-8; output of a case may hold halves of characters, which it cannot."""
    return text.encode("utf-8", "backslashreplace")


BESIDE = ("python", "source", "unstable", "stale", "simulated", "computed", "measured")
CELL_COLUMNS = (*COLUMNS, *BESIDE)
"""The file of all cells: the columns of `results`, and what it says beside them."""


def rows_of(survey: Survey, name: str) -> list[tuple[Value, ...]]:
    """Return the rows of a case in the file of all cells."""
    rows = in_order(survey.of_case(name), survey.order)
    return [(*_row(row), *_beside(row, survey)) for row in rows]


def packed(rows: Iterable[Sequence[Value]]) -> bytes:
    """Return rows as CSV without a head, compressed as one member of a gzip file."""
    return gzip.compress(encoded(_lines(rows)), compresslevel=6, mtime=0)


def _beside(row: Judged, survey: Survey) -> tuple[Value, ...]:
    seen = row.seen
    return (
        seen.provenance.python,
        seen.source,
        seen.unstable,
        row.stale,
        seen.cell.case in survey.simulated,
        _numbers(tuple(seen.computed.items())) if seen.computed else "",
        _numbers(tuple(seen.measured.items())) if seen.measured else "",
    )


# Neighbouring releases count and measure the same.
@lru_cache(maxsize=4096)
def _numbers(found: tuple[tuple[str, float], ...]) -> str:
    return json.dumps(dict(found))
