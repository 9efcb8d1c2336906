"""This machine's evidence in SQLite: one row per cell and identity, written cell by cell.

A kill at any moment loses at most the cells in flight. Several runs may write at once: a row's
key is what was measured, so the same cell measured twice is one row.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import sqlite3
from typing import TYPE_CHECKING, NamedTuple, cast

from runner.model.cell import Cell
from runner.model.observation import LOCAL, Failed, Observation, Provenance
from runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from runner.evidence.published import Keep

VERSION = 1
_WAIT = 60.0
# Busy or not allowed, which is no damage: such a store stays where it is.
_OUT_OF_REACH = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)
_TABLES = """
CREATE TABLE IF NOT EXISTS provenances (
    id TEXT PRIMARY KEY, packages TEXT NOT NULL, python TEXT NOT NULL, torch_build TEXT NOT NULL,
    hardware TEXT NOT NULL, imported TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    case_name TEXT NOT NULL, workaround TEXT NOT NULL, environment TEXT NOT NULL,
    precision TEXT NOT NULL, device TEXT NOT NULL, case_digest TEXT NOT NULL,
    environment_digest TEXT NOT NULL, protocol INTEGER NOT NULL,
    outcome TEXT NOT NULL, error_class TEXT, message TEXT, signature TEXT, traceback TEXT,
    reason TEXT NOT NULL, exercised TEXT NOT NULL, computed TEXT NOT NULL, measured TEXT NOT NULL,
    unstable INTEGER NOT NULL, repeats INTEGER NOT NULL, seconds REAL, output TEXT NOT NULL,
    run TEXT NOT NULL, provenance TEXT NOT NULL REFERENCES provenances(id),
    PRIMARY KEY (case_name, workaround, environment, precision, device,
                 case_digest, environment_digest, protocol)
);
"""

_RAN = ("provenance", "case_digest", "environment_digest", "protocol", "run")
"""The columns that say what a cell ran on."""


class Store:
    """An open store; use it from one thread."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        """Open or create; a store that cannot be trusted is kept aside and `say` is told."""
        path.parent.mkdir(parents=True, exist_ok=True)
        _set_aside_if_unusable(path, say)
        self.written = False
        """Whether something was stored since it was opened."""
        self._db = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        with contextlib.suppress(sqlite3.OperationalError):
            # Not every file system allows it; without it only concurrency suffers.
            self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        with self._transaction():
            for statement in filter(str.strip, _TABLES.split(";")):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={VERSION}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close; nothing is pending."""
        self._db.close()

    def put(self, *rows: Observation) -> None:
        """Store observations; a cell that was measured drops what said that it could not be."""
        self.written = self.written or bool(rows)
        with self._transaction():
            for row in rows:
                self._put(row)

    def _put(self, row: Observation) -> None:
        if row.provenance.environment_digest:
            self._db.execute(
                "DELETE FROM cells WHERE case_name=? AND workaround=? AND environment=?"
                " AND precision=? AND device=? AND environment_digest=''",
                tuple(map(str, row.cell)),
            )
        identity, provenance = _provenance_row(row.provenance)
        self._db.execute("INSERT OR IGNORE INTO provenances VALUES (?,?,?,?,?,?)", provenance)
        values = _values(row, identity)
        marks = ",".join("?" * len(values))
        self._db.execute(f"INSERT OR REPLACE INTO cells VALUES ({marks})", values)  # noqa: S608

    def rows(
        self, cases: Collection[str] | None = None, keep: Keep | None = None
    ) -> Iterator[Observation]:
        """Yield everything that is stored, or what is wanted of some cases, oldest first."""
        for row, ran in self.selected(cases, keep):
            yield observation(row, ran)

    def selected(
        self, cases: Collection[str] | None = None, keep: Keep | None = None
    ) -> Iterator[tuple[sqlite3.Row, Provenance]]:
        """Yield the same rows as they are stored, with what they ran on."""
        names = list(cases or ())
        marks = ",".join("?" * len(names))
        within = "" if cases is None else f"WHERE case_name IN ({marks})"
        if keep is not None:
            self._db.create_function("wanted", 5, _wanted(keep))
            asked = "wanted(case_name, workaround, environment, precision, device)"
            within = f"{within} AND {asked}" if within else f"WHERE {asked}"
        cells = self._db.execute(f"SELECT * FROM cells {within} ORDER BY rowid", names).fetchall()  # noqa: S608 - marks
        # After the cells: what another run stores in between must not lack its provenance.
        held = {row["id"]: _held(row) for row in self._db.execute("SELECT * FROM provenances")}
        known: dict[tuple[object, ...], Provenance] = {}
        for row in cells:
            key = tuple(row[name] for name in _RAN)
            if key not in known:
                known[key] = _provenance(row, held[row["provenance"]])
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


def _set_aside_if_unusable(path: Path, say: Callable[[str], None]) -> None:
    why = why_unusable(path)
    if not why:
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.kept-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    say(f"{path.name} {why}; it is kept as {aside.name} and a new store is begun.")


def why_unusable(path: Path) -> str:
    """Say why a file cannot be used as a store; nothing where it can, or is not there."""
    if not path.exists():
        return ""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_WAIT)) as database:
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
            if version > VERSION:
                return (
                    f"was written by a newer version (format {version}, this one reads {VERSION})"
                )
            damage = str(database.execute("PRAGMA quick_check").fetchone()[0])
            return "" if damage == "ok" else f"is damaged ({damage})"
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _OUT_OF_REACH:
            raise
        return f"is damaged ({error})"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _provenance_row(found: Provenance) -> tuple[str, tuple[str, ...]]:
    facts = (
        _json(dict(found.packages)),
        found.python,
        found.torch_build,
        found.hardware,
        _json(dict(found.imported)),
    )
    identity = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return identity, (identity, *facts)


def _values(row: Observation, provenance: str) -> tuple[object, ...]:
    failed = row.failed
    return (
        *map(str, row.cell),
        row.provenance.case_digest,
        row.provenance.environment_digest,
        row.provenance.protocol,
        str(row.outcome),
        failed.error_class if failed else None,
        failed.message if failed else None,
        failed.signature if failed else None,
        failed.traceback if failed else None,
        row.reason,
        str(row.exercised),
        _json(dict(row.computed)),
        _json(dict(row.measured)),
        row.unstable,
        row.repeats,
        row.seconds,
        row.output,
        row.provenance.run,
        provenance,
    )


class _Held(NamedTuple):
    """What many cells ran on, read once."""

    packages: dict[str, str]
    python: str
    torch_build: str
    hardware: str
    imported: dict[str, str]


def _held(row: sqlite3.Row) -> _Held:
    return _Held(
        packages=json.loads(row["packages"]),
        python=row["python"],
        torch_build=row["torch_build"],
        hardware=row["hardware"],
        imported=json.loads(row["imported"]),
    )


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> Mapping[str, float]:
    """Read numbers by name; cells that did the same have the same, so few texts are read."""
    return cast("Mapping[str, float]", json.loads(text))


def observation(row: sqlite3.Row, ran: Provenance) -> Observation:
    """Return a stored row in full."""
    return Observation(
        cell=cell_of(row),
        outcome=Outcome(row["outcome"]),
        provenance=ran,
        source=LOCAL,
        failed=_failed(row),
        reason=row["reason"],
        exercised=Exercised(row["exercised"]),
        computed=cast("Mapping[str, int]", _numbers(row["computed"])),
        measured=_numbers(row["measured"]),
        unstable=bool(row["unstable"]),
        repeats=row["repeats"],
        seconds=row["seconds"],
        output=row["output"],
    )


def cell_of(row: sqlite3.Row) -> Cell:
    """Return the cell of a stored row."""
    precision, device = Precision(row["precision"]), Device(row["device"])
    return Cell(row["case_name"], row["workaround"], row["environment"], precision, device)


def _provenance(row: sqlite3.Row, held: _Held) -> Provenance:
    return Provenance(
        case_digest=row["case_digest"],
        environment_digest=row["environment_digest"],
        protocol=row["protocol"],
        run=row["run"],
        **held._asdict(),
    )


def _failed(row: sqlite3.Row) -> Failed | None:
    if row["error_class"] is None:
        return None
    return Failed(
        error_class=row["error_class"],
        message=row["message"],
        signature=row["signature"],
        traceback=row["traceback"],
    )
