"""This machine's evidence in SQLite: one row per cell and identity, written cell by cell.

A kill at any moment loses at most the cells in flight. Several runs may write at once: a row's
key is what was measured, so the same cell measured twice is one row. What others measured stands
in a table beside it (`imports.py`); both are read as one.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from repromatrix.runner.evidence import database, imports
from repromatrix.runner.evidence.conflicts import answers
from repromatrix.runner.evidence.imports import Taken
from repromatrix.runner.evidence.published import Keep
from repromatrix.runner.evidence.schema import (
    COLUMNS,
    KEY,
    LATER,
    NAMES,
    Identities,
    held,
    observation,
    provenance,
    ran_on,
    values,
)
from repromatrix.runner.model.observation import LOCAL, MERGED, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Precision

VERSION = 3
"""1 had what this machine measured; 2 has beside it what was merged, and the shards that ended;
3 has the memory of a cell."""
_TABLES = f"""
CREATE TABLE IF NOT EXISTS provenances (
    id TEXT PRIMARY KEY, packages TEXT NOT NULL, python TEXT NOT NULL, torch_build TEXT NOT NULL,
    hardware TEXT NOT NULL, imported TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells ({COLUMNS}, {", ".join(LATER)},
    PRIMARY KEY ({", ".join(KEY)})
);
{imports.TABLE}
CREATE TABLE IF NOT EXISTS shards (
    shard TEXT NOT NULL, split TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (shard, split)
) WITHOUT ROWID;
"""

_PUT = (
    f"INSERT OR REPLACE INTO cells ({','.join(NAMES)})"  # noqa: S608 - our own names
    f" VALUES ({','.join('?' * len(NAMES))})"
)


class Store:
    """An open store; use it from one thread."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        """Open or create; a store that cannot be trusted is kept aside and `say` is told.

        Raises RunnerError where it can be read or written by nobody, or somebody else holds it.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        database.set_aside_if_unusable(path, VERSION, say)
        self.path = path
        self.written = False
        """Whether something was stored since it was opened."""
        self._db = database.connected(path)
        self._db.row_factory = sqlite3.Row
        with self.together():
            for statement in filter(str.strip, _TABLES.split(";")):
                self._db.execute(statement)
            self._complete("cells")
            self._complete("merged")
            self._db.execute(f"PRAGMA user_version={VERSION}")

    def _complete(self, table: str) -> None:
        """Add to a table of an older format what it lacks."""
        there = {row["name"] for row in self._db.execute(f"PRAGMA table_info({table})")}
        for column in LATER:
            if column.split()[0] not in there:
                self._db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write all that a block writes, or, where it raises, nothing of it.

        Raises RunnerError where it cannot be written.
        """
        nested = self._db.in_transaction
        with database.told(self.path):
            self._db.execute("SAVEPOINT inner" if nested else "BEGIN IMMEDIATE")
            try:
                yield
                if not nested:
                    self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite ends some of them by itself
                    self._db.execute("ROLLBACK TO inner" if nested else "ROLLBACK")
                raise
            if nested:
                self._db.execute("RELEASE inner")

    @contextlib.contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Let a block write and read what it wrote; afterwards nothing of it is there."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Close; nothing is pending."""
        self._db.close()

    def put(self, *rows: Observation) -> None:
        """Store observations; a cell that was measured drops what said that it could not be."""
        self.written = self.written or bool(rows)
        with self.together():
            identities = Identities(self._db)
            for row in rows:
                self._put(row, identities.of(row.provenance))

    def _put(self, row: Observation, identity: str) -> None:
        if row.provenance.environment_digest:
            self._db.execute(
                "DELETE FROM cells WHERE case_name=? AND workaround=? AND environment=?"
                " AND precision=? AND device=? AND environment_digest=''",
                tuple(map(str, row.cell)),
            )
        self._db.execute(_PUT, values(row, identity))
        if row.is_confirmed:
            imports.settle(self._db, row)

    def take(self, rows: Iterable[Observation]) -> Taken:
        """Keep what others measured beside what was measured here: all of it, or none."""
        self.written = True
        with imports.waiting(self._db, rows) as number, self.together():
            return imports.take(self._db, number)

    def begin_shard(self, split: str) -> None:
        """Forget the shards of other splits: what is measured from now on is not theirs."""
        with self.together():
            self._db.execute("DELETE FROM shards WHERE split<>?", (split,))

    def end_shard(self, shard: str, split: str, run: str) -> None:
        """Keep that a run of this store measured its whole share of a split."""
        with self.together():
            self._db.execute("INSERT OR REPLACE INTO shards VALUES (?,?,?)", (shard, split, run))

    def shards(self) -> frozenset[tuple[str, str]]:
        """Return the shards that were measured to their end, each with its split."""
        found = self._db.execute("SELECT shard, split FROM shards")
        return frozenset((shard, split) for shard, split in found)

    def rows(
        self, cases: Collection[str] | None = None, keep: Keep | None = None
    ) -> Iterator[Observation]:
        """Yield what answers for all that is stored, or for some cases, oldest first.

        Raises RunnerError at a row that is damaged.
        """
        with database.readable(self.path):
            # What others measured, and nobody has settled here.
            theirs = self._select("merged", cases, keep, "settled=''")
            merged = [observation(row, ran, MERGED) for row, ran in theirs]
            own = (observation(row, ran, LOCAL) for row, ran in self._select("cells", cases, keep))
            yield from answers([*own, *merged]) if merged else own

    def statements(self) -> Iterator[Observation]:
        """Yield every row as it was measured, here and elsewhere, whatever denies it.

        Raises RunnerError at a row that is damaged.
        """
        with database.readable(self.path):
            for table, source in (("cells", LOCAL), ("merged", MERGED)):
                for row, ran in self._select(table):
                    yield observation(row, ran, source)

    def _select(
        self,
        table: str,
        cases: Collection[str] | None = None,
        keep: Keep | None = None,
        which: str = "",
    ) -> Iterator[tuple[sqlite3.Row, Provenance]]:
        names = list(cases or ())
        asked = [which] if which else []
        if cases is not None:
            asked.append(f"case_name IN ({','.join('?' * len(names))})")
        if keep is not None:
            self._db.create_function("wanted", 5, _wanted(keep))
            asked.append("wanted(case_name, workaround, environment, precision, device)")
        within = f"WHERE {' AND '.join(asked)}" if asked else ""
        order = "rowid" if table == "cells" else ", ".join([*KEY, "said"])
        cells = self._db.execute(f"SELECT * FROM {table} {within} ORDER BY {order}", names)  # noqa: S608 - our own words and marks
        found = cells.fetchall()
        if not found:
            return
        # After the cells: what another run stores in between must not lack its provenance.
        ran = {row["id"]: held(row) for row in self._db.execute("SELECT * FROM provenances")}
        known: dict[tuple[object, ...], Provenance] = {}
        for row in found:
            key = ran_on(row)
            if key not in known:
                known[key] = provenance(row, ran[row["provenance"]])
            yield row, known[key]


def _wanted(keep: Keep) -> Callable[[str, str, str, str, str], bool]:
    """Return a function for SQLite, so that what is not wanted is not read."""

    @functools.cache
    def variant(case: str, workaround: str, precision: str, device: str) -> Collection[str] | None:
        return keep(case, workaround, Precision(precision), Device(device))

    def wanted(case: str, workaround: str, environment: str, precision: str, device: str) -> bool:
        found = variant(case, workaround, precision, device)
        return found is None or environment in found

    return wanted
