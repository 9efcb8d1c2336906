"""Open a store's SQLite file: whether it can be trusted, and how it is written there.

Errors name the file.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import functools
import mmap
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
    run TEXT NOT NULL, provenance TEXT NOT NULL REFERENCES provenances(id)"""
"""In the order of `store.values`."""

LATER = ("peak_mib INTEGER", "limit_mib INTEGER")
"""Columns that older formats lack: behind all others, where they are added to a table of those."""

NAMES = tuple(line.split()[0] for line in (*COLUMNS.split(","), *LATER))

_VALUES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int)}
_KINDS = tuple(
    frozenset((*_VALUES[kind], *(() if rest else (type(None),))))
    for _, kind, *rest in map(str.split, (*COLUMNS.split(","), *LATER))
)
"""What each column may hold; one that is declared no further may be empty."""
_OLD = len(NAMES) - len(LATER)


@functools.cache
def check_kinds(kinds: tuple[type, ...]) -> None:
    """Raise TypeError where the values of a row are none of ours: SQLite keeps any in any column.

    A table may have further columns in front of those of `LATER`.
    """
    own = (*kinds[:_OLD], *kinds[-len(LATER) :])
    for name, kind, allowed in zip(NAMES, own, _KINDS, strict=True):
        if kind not in allowed:
            message = f"{name} holds {kind.__name__}"
            raise TypeError(message)


VERSION = 3
"""1 had what this machine measured; 2 has beside it what was merged, and the shards that ended;
3 has the memory of a cell."""
TABLES = f"""
CREATE TABLE IF NOT EXISTS provenances (
    id TEXT PRIMARY KEY, packages TEXT NOT NULL, python TEXT NOT NULL, torch_build TEXT NOT NULL,
    hardware TEXT NOT NULL, imported TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells ({COLUMNS}, {", ".join(LATER)},
    PRIMARY KEY ({", ".join(KEY)})
);
CREATE TABLE IF NOT EXISTS merged ({COLUMNS},
    said TEXT NOT NULL, identity TEXT NOT NULL, settled TEXT NOT NULL, {", ".join(LATER)},
    PRIMARY KEY ({", ".join(KEY)}, said)
);
CREATE TABLE IF NOT EXISTS shards (
    shard TEXT NOT NULL, split TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (shard, split)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS confirmation (seed INTEGER NOT NULL, run TEXT NOT NULL);
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

_LOOK, _MOMENT = 0.05, 1.0
"""Seconds between two tries, and for which a setting waits."""
# What SQLite says of the content; whatever else goes wrong is no damage, and the file stays.
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_NO_MEMORY = frozenset({errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
# Several machines see these, and what they share of a file's memory is not the same.
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs"}
)
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.bindfs"})
_ALONE, _NOT_ALONE = "PRAGMA locking_mode=EXCLUSIVE", "PRAGMA locking_mode=NORMAL"
_JOURNAL = ("PRAGMA journal_mode=DELETE", "PRAGMA synchronous=FULL")
_WITH_LOG = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL")
# A log that is there already can be read without shared memory only by one who is alone.
_WITH_JOURNAL = (_ALONE, *_JOURNAL, _NOT_ALONE)
_MOVED = "REPROMATRIX_STORE moves the store to another disk."
_MOVED_AWAY = "Move it away, or let REPROMATRIX_STORE name another path."
_OURS = {"cells", "provenances"}
"""What every store has, whatever its format: all its tables are made at once."""


def connected(path: Path) -> sqlite3.Connection:
    """Open a store's file so that several runs may write: with a log beside it, or a journal.

    SQLite's log (WAL) needs memory that all who write share, which a network's file system cannot
    give; there a journal does, only more slowly. Raises sqlite3.Error, and RunnerError as
    `told` does.
    """
    with told(path):
        return _patiently(path, _WITH_LOG if _may_have_log(path) else _WITH_JOURNAL)


def _may_have_log(path: Path) -> bool:
    """Say whether a file may be written with a log, without touching the file.

    Never try it on the store itself: that switches the file to a log, and until it is switched
    back every other run that writes to it ends with an error of its disk (SQLITE_IOERR_SHMMAP).
    """
    return not on_network(path) and _shares_memory(path.parent)


def _patiently(path: Path, statements: Sequence[str]) -> sqlite3.Connection:
    """Open a file; while somebody else holds it, try again."""
    deadline = time.monotonic() + WAIT
    while True:
        try:
            return _prepared(path, statements)
        except sqlite3.OperationalError as error:
            if _kind(error) not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_LOOK)


def _prepared(path: Path, statements: Sequence[str]) -> sqlite3.Connection:
    alone = _ALONE in statements
    # Never wait inside SQLite to be alone: it keeps its shared lock meanwhile, so that two that
    # wait for each other wait in vain. `_patiently` closes the file and tries again.
    database = sqlite3.connect(path, timeout=0 if alone else _MOMENT, isolation_level=None)
    try:
        for statement in statements:
            try:
                database.execute(statement)
            except sqlite3.OperationalError as error:
                # Whoever is busy there keeps its setting. Only being alone is not optional: a
                # log in our own memory would be written beside that of the others.
                if alone or _kind(error) not in _BUSY:
                    raise
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        database.execute(f"PRAGMA busy_timeout={WAIT * 1000:.0f}")
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


def _shares_memory(folder: Path) -> bool:
    """Say whether several processes can map a file of a folder, as SQLite's log needs it."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(mmap.PAGESIZE)
            # Never write to what is mapped: on a full disk that is SIGBUS, not an error.
            mmap.mmap(file.fileno(), mmap.PAGESIZE).close()
    except OSError as error:  # a folder in which nothing can be made says nothing about memory
        return error.errno not in _NO_MEMORY
    return True


def on_network(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Say whether a file lies on a file system that other machines may see, too."""
    kind = _file_system(path.resolve(), mounts)
    return kind in _NETWORK or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def _file_system(path: Path, mounts: Path) -> str:
    """Return the kind of the file system that a path is on; nothing where nobody says so."""
    try:
        lines = mounts.read_text(errors="surrogateescape", encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = (line.split() for line in lines)
    # The fields before the dash vary in number; a space in a name is written as \040.
    kinds = [(one[4].replace("\\040", " "), one[one.index("-") + 1]) for one in found]
    over = [(place, kind) for place, kind in kinds if path.is_relative_to(place)]
    # Of two on the same place the later one lies on top.
    return max(over, key=lambda one: len(one[0]), default=("", ""))[1] if over else ""


def set_aside_if_unusable(path: Path, say: Callable[[str], None]) -> None:
    """Keep a file that cannot be used under another name.

    Raises RunnerError as `told` does, and for an SQLite file of another program.
    """
    why = why_unusable(path)
    if not why:
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.kept-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    say(f"{path.name} {why}; it is kept as {aside.name} and a new store is begun.")


def why_unusable(path: Path) -> str:
    """Say why a file cannot be used as a store; nothing where it can, or does not exist.

    Raises RunnerError as `told` does, and for an SQLite file of another program: that one must
    neither be written to nor moved away.
    """
    if not path.exists():
        return ""
    try:
        as_it_is = () if _may_have_log(path) else (_ALONE,)
        with told(path), contextlib.closing(_patiently(path, as_it_is)) as database:
            asked = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            tables = [str(name) for (name,) in database.execute(asked)]
            if tables and not {*tables} >= _OURS:
                strangers = ", ".join(tables)
                what = f"this SQLite file is not a repromatrix store (its tables: {strangers})"
                raise refuse(Problem(path.name, what, _MOVED_AWAY))
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
            if version > VERSION:
                return (
                    f"was written by a newer version (format {version}, this one reads {VERSION})"
                )
            damage = str(database.execute("PRAGMA quick_check").fetchone()[0])
            if damage != "ok":
                return f"is damaged ({damage})"
            # Cells are read by the places of their columns.
            columns = tuple(name for _, name, *_ in database.execute("PRAGMA table_info(cells)"))
            usual = {(), NAMES, NAMES[: -len(LATER)]}
            return "" if columns in usual else "is damaged (cells with other columns)"
    except sqlite3.DatabaseError as error:
        return f"is damaged ({error})"
    except UnicodeDecodeError as error:  # SQLite quotes what stands in the file
        return f"is damaged ({error.reason})"
