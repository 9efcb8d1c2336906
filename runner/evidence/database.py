"""Open a store's SQLite file: whether it can be trusted, and how it is written there.

Errors name the file.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import functools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.files import unwritable

KEY = (
    *("case_name", "workaround", "environment", "precision", "device"),
    *("case_digest", "environment_digest", "protocol"),
)
"""What was measured: two rows that agree in these are about the same thing."""

COLUMNS = """
    case_name TEXT NOT NULL, workaround TEXT NOT NULL, environment TEXT NOT NULL,
    precision TEXT NOT NULL, device TEXT NOT NULL, case_digest TEXT NOT NULL,
    environment_digest TEXT NOT NULL, protocol INTEGER NOT NULL,
    outcome TEXT NOT NULL, error_class TEXT, message TEXT, signature TEXT, traceback TEXT,
    reason TEXT NOT NULL, exercised TEXT NOT NULL, computed TEXT NOT NULL, measured TEXT NOT NULL,
    unstable INTEGER NOT NULL, repeats INTEGER NOT NULL, seconds REAL, output TEXT NOT NULL,
    run TEXT NOT NULL, provenance TEXT NOT NULL REFERENCES provenances(id),
    peak_mib INTEGER, limit_mib INTEGER"""
"""In the order in which the store writes them."""

NAMES = tuple(line.split()[0] for line in COLUMNS.split(","))

_VALUES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int)}
_KINDS = tuple(
    frozenset((*_VALUES[kind], *(() if rest else (type(None),))))
    for _, kind, *rest in map(str.split, COLUMNS.split(","))
)
"""What each column may hold; one that is declared no further may be empty."""


@functools.cache
def check_kinds(kinds: tuple[type, ...]) -> None:
    """Raise TypeError where the values of a row are none of ours: SQLite keeps anything."""
    for name, kind, allowed in zip(NAMES, kinds, _KINDS, strict=True):
        if kind not in allowed:
            message = f"{name} holds {kind.__name__}"
            raise TypeError(message)


VERSION = 3
TABLES = f"""
CREATE TABLE IF NOT EXISTS provenances (
    id TEXT PRIMARY KEY, packages TEXT NOT NULL, python TEXT NOT NULL, torch_build TEXT NOT NULL,
    hardware TEXT NOT NULL, imported TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells ({COLUMNS},
    PRIMARY KEY ({", ".join(KEY)})
);
CREATE TABLE IF NOT EXISTS merged ({COLUMNS},
    said TEXT NOT NULL, identity TEXT NOT NULL, settled TEXT NOT NULL,
    PRIMARY KEY ({", ".join(KEY)}, said)
);
CREATE TABLE IF NOT EXISTS shards (
    shard TEXT NOT NULL, split TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (shard, split)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS confirmation (seed INTEGER NOT NULL, run TEXT NOT NULL);
PRAGMA user_version={VERSION};
"""

UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    csv.Error,
    sqlite3.Error,
)
"""What comes of reading such a file."""


@contextlib.contextmanager
def addressed(where: str, fix: str = "") -> Iterator[None]:
    """Turn whatever goes wrong with a file in a block into a RunnerError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise refuse(Problem(where, "the file does not exist", fix)) from error
    except OSError as error:
        raise refuse(Problem(where, f"the file cannot be read ({error.strerror})", fix)) from error
    except UNREADABLE as error:
        raise damaged(where, error, fix) from error


def damaged(where: str, error: Exception, fix: str = "") -> RunnerError:
    """Return the error for a file that could not be read to its end."""
    why = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return refuse(Problem(where, f"the file is damaged ({why})", fix))


WAIT = 60.0
"""Seconds for which somebody else may write."""

# What SQLite says of the content; whatever else goes wrong is no damage, and the file stays.
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_MOVED = "REPROMATRIX_STORE moves the store to another disk."
_MOVED_AWAY = "Move it away, or let REPROMATRIX_STORE name another path."
_OURS = {"cells", "provenances"}
"""What every store has, whatever its format: all its tables are made at once."""


def connected(path: Path, *, to_read: bool = False) -> sqlite3.Connection:
    """Open a store's file. Several runs may write to it: each waits until the others have.

    Raises sqlite3.Error, and RunnerError as `told` does.
    """
    address = f"{path.absolute().as_uri()}?mode={'ro' if to_read else 'rwc'}"
    with told(path):
        database = sqlite3.connect(address, timeout=0, isolation_level=None, uri=True)
        try:
            if not to_read:
                # Nobody waits for the disk: what a killed run had written stays all the same, and
                # after a power cut `_fault` finds what is damaged.
                database.execute("PRAGMA synchronous=OFF")
            database.execute(f"PRAGMA busy_timeout={WAIT * 1000:.0f}")
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            database.close()
            raise
        return database


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what keeps a store from being read or written into an error that names the store.

    Raises RunnerError for a store that somebody else holds, and for a file system on which no
    locks are to be had; damage is passed on.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if _kind(error) in _DAMAGE:
            raise
        raise _refused(path, error) from error


def _refused(path: Path, error: sqlite3.OperationalError) -> RunnerError:
    if not _has_locks(path.parent):
        return refuse(Problem(path.name, "its file system cannot lock files", _MOVED))
    if _kind(error) in _BUSY:
        what = f"another program has kept the store locked for {WAIT:.0f} s"
        return refuse(Problem(path.name, what, "Close that program and run again."))
    fault = Problem(path.name, f"the store cannot be written ({error})", _MOVED)
    return unwritable(path.name, error) or refuse(fault)


def _kind(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _has_locks(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # a folder in which nothing can be made says nothing about locks
        return error.errno not in _NO_LOCKS
    return True


def set_aside_if_unusable(path: Path, say: Callable[[str], None]) -> None:
    """Keep a file that cannot be used under another name.

    Raises RunnerError as `told` does, and for an SQLite file of another program.
    """
    if not (why := why_unusable(path)):
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.kept-{number}")).exists():
        number += 1
    path.rename(aside)
    with contextlib.suppress(FileNotFoundError):
        journal = path.with_name(f"{path.name}-journal")
        journal.rename(aside.with_name(f"{aside.name}-journal"))
    say(f"{path.name} {why}; it is kept as {aside.name} and a new store is begun.")


def why_unusable(path: Path, *, to_read: bool = False) -> str:
    """Say why a file cannot be used as a store; nothing where it can, or does not exist.

    Raises RunnerError as `told` does, and for an SQLite file of another program: that one must
    neither be written to nor moved away.
    """
    if not path.exists():
        return ""
    try:
        with contextlib.closing(connected(path, to_read=to_read)) as database:
            asked = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            tables = [str(name) for (name,) in database.execute(asked)]
            if tables and not {*tables} >= _OURS:
                strangers = ", ".join(tables)
                what = f"this SQLite file is not a repromatrix store (its tables: {strangers})"
                raise refuse(Problem(path.name, what, _MOVED_AWAY))
            if not tables:
                return "is empty" if to_read else ""
            return _fault(database)
    except sqlite3.DatabaseError as error:
        return f"is damaged ({error})"
    except UnicodeDecodeError as error:  # SQLite quotes what stands in the file
        return f"is damaged ({error.reason})"


def _fault(database: sqlite3.Connection) -> str:
    """Return why the tables of a store cannot be used; nothing where they can."""
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version != VERSION:
        age = "a newer" if version > VERSION else "an earlier"
        return f"was written by {age} version (format {version}, this one reads {VERSION})"
    damage = str(database.execute("PRAGMA quick_check").fetchone()[0])
    if damage != "ok":
        return f"is damaged ({damage})"
    columns = {name for _, name, *_ in database.execute("PRAGMA table_info(cells)")}
    return "" if columns == {*NAMES} else "is damaged (cells with other columns)"
