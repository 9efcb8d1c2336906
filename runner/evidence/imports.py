"""What other machines measured, kept in a table of its own beside what this one did.

A row per key and per thing that is said of it, so that rows which deny each other stand side by
side. Of rows that say the same one is kept, by an order that holds everywhere: whatever is merged,
in which order and how often, the same is in the table.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from repromatrix.runner.evidence.answering import says
from repromatrix.runner.evidence.schema import COLUMNS, KEY, LATER, NAMES, provenance_row, values
from repromatrix.runner.model.observation import Observation, Provenance

_ALL = (*NAMES, "said", "identity", "settled")
TABLE = f"""
CREATE TABLE IF NOT EXISTS merged ({COLUMNS},
    said TEXT NOT NULL, identity TEXT NOT NULL, settled TEXT NOT NULL, {", ".join(LATER)},
    PRIMARY KEY ({", ".join(KEY)}, said)
);
"""
"""`said` is what a row says, `identity` the row, `settled` the run here that decided otherwise."""

# What is read of a file waits in tables of this connection alone: nobody who writes waits for it.
_WAITING = """
CREATE TEMP TABLE ran_there AS SELECT * FROM main.provenances WHERE 0;
CREATE TEMP TABLE waiting AS SELECT * FROM main.merged WHERE 0;
"""
_SAME = " AND ".join(f"cells.{name}=waiting.{name}" for name in (*KEY, "run"))
_ORDER = "({0}.seconds IS NOT NULL, {0}.run, {0}.identity)"
# What was measured here and comes back to us stays as it is.
_TAKE = f"""
INSERT INTO main.merged SELECT * FROM waiting
WHERE NOT EXISTS (SELECT 1 FROM main.cells WHERE {_SAME})
ON CONFLICT ({", ".join(KEY)}, said) DO UPDATE SET
    {", ".join(f"{name}=excluded.{name}" for name in _ALL)}
WHERE {_ORDER.format("excluded")} > {_ORDER.format("merged")}
"""  # noqa: S608 - our own names
_KEY_IS = " AND ".join(f"{name}=?{number}" for number, name in enumerate(KEY, 1))
_SETTLE = f"UPDATE merged SET settled=?{len(KEY) + 1} WHERE {_KEY_IS} AND settled=''"  # noqa: S608


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What became of rows that were merged."""

    rows: int
    new: int
    newer: int
    """Rows that took the place of one that says the same."""


@contextlib.contextmanager
def waiting(db: sqlite3.Connection, rows: Iterable[Observation]) -> Iterator[int]:
    """Read rows, and keep them for the length of a block in which they may be taken in."""
    for statement in filter(str.strip, _WAITING.split(";")):
        db.execute(statement)
    try:
        marks = ",".join("?" * len(_ALL))
        insert = f"INSERT INTO waiting ({', '.join(_ALL)}) VALUES ({marks})"  # noqa: S608
        yield db.executemany(insert, _told(db, rows)).rowcount
    finally:
        db.execute("DROP TABLE waiting")
        db.execute("DROP TABLE ran_there")


def take(db: sqlite3.Connection, number: int) -> Taken:
    """Write the rows that wait beside those that are there, within the caller's transaction."""
    db.execute("INSERT OR IGNORE INTO main.provenances SELECT * FROM ran_there")
    before = _count(db)
    changes = db.execute(_TAKE).rowcount
    new = _count(db) - before
    return Taken(rows=number, new=new, newer=changes - new)


def _told(db: sqlite3.Connection, rows: Iterable[Observation]) -> Iterator[tuple[object, ...]]:
    ran: dict[int, tuple[Provenance, str]] = {}
    for row in rows:
        if id(row.provenance) not in ran:
            identity, held = provenance_row(row.provenance)
            db.execute("INSERT INTO ran_there VALUES (?,?,?,?,?,?)", held)
            ran[id(row.provenance)] = row.provenance, identity
        told = values(row, ran[id(row.provenance)][1])
        # A row of an older format is the same row here as there.
        known = told if row.memory else told[: -len(LATER)]
        yield (*told, _digest(says(row)), _digest(known), "")


def _digest(found: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(found).encode(errors="backslashreplace")).hexdigest()[:16]


def _count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM merged").fetchone()[0])


def settle(db: sqlite3.Connection, row: Observation) -> None:
    """Let what was measured here, and confirmed, decide what others deny."""
    ran = row.provenance
    key = (*map(str, row.cell), ran.case_digest, ran.environment_digest, ran.protocol)
    db.execute(_SETTLE, (*key, ran.run))
