"""The files beside the first page: the data of its scripts, and its table for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.context import SCRIPTS
from reports.data import data
from reports.script import assignment
from reports.signatures import signatures
from reports.tables import as_json, tabulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.setting import Setting
    from reports.survey import Survey

ASSETS = ("index.css", *(name for name in SCRIPTS if not name.startswith("data/")))


def files(survey: Survey, setting: Setting) -> Iterator[tuple[str, bytes]]:
    """Yield the data and the tables: the path of each below the site, and its content."""
    yield "data/matrix.js", assignment("matrix", data(survey))
    yield "data/known.js", assignment("known", signatures(survey, setting.brief))
    frame = tabulate(survey.rows.values(), survey.order)
    # Output of a case may hold halves of characters, which UTF-8 cannot express.
    table = frame.to_csv(index=False, lineterminator="\n")
    yield "cells.csv", table.encode("utf-8", "backslashreplace")
    yield "cells.json", as_json(frame).encode()
