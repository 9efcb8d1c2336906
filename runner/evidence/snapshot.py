"""The snapshot that an answer rests on: the newest publication, and how old it is today."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner.errors import InvalidValue, refuse
from repromatrix.runner.evidence.database import addressed
from repromatrix.runner.evidence.published import WRITTEN, publications_of, read_publications
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.text import plural

TODAY = "REPROMATRIX_TODAY"


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The newest publication of a published set."""

    name: str
    """Its day, with a letter where that day has several."""
    date: dt.date
    age: int
    """Days from its day to today; below zero where the clock of this machine is behind."""

    def __str__(self) -> str:
        """Return `evidence of 2026-11-24, 3 days old`."""
        aged = f"{plural(self.age, 'day')} old" if self.age > 0 else "published today"
        return f"evidence of {self.name}{f', {aged}' if self.age >= 0 else ''}"


def newest(folder: Path, device: Device | None = None) -> Snapshot | None:
    """Return the snapshot of a published set; None where nothing was published.

    With a device that is the newest publication that holds cells of it. Raises RunnerError for a
    list of publications that cannot be read.
    """
    publications = list(read_publications(folder).values())
    if device is not None:
        held = publications_of(folder, device)
        publications = [act for act in publications if act.name in held]
    if not publications:
        return None
    last = max(publications, key=lambda one: (one.date, one.name))
    with addressed("publications.toml", WRITTEN):
        date = dt.date.fromisoformat(last.date)
    return Snapshot(name=last.name, date=date, age=(today() - date).days)


def today() -> dt.date:
    """Return the day of today in UTC, or the one that is set in its place; raises RunnerError."""
    text = os.environ.get(TODAY, "")
    if not text:
        return dt.datetime.now(dt.UTC).date()
    with contextlib.suppress(ValueError):
        return dt.date.fromisoformat(text)
    raise refuse(InvalidValue(TODAY, text, "a day such as 2026-12-31"))
