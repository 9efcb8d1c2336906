"""Files written whole or not at all, and what is said where a disk does not take them."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from repromatrix.runner.errors import Problem, RunnerError
from repromatrix.runner.signals import held

_FULL = "no space is left on its disk"
_READ_ONLY = "its file system is read-only"
_FORBIDDEN = "you have no permission to write it"
_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "your disk quota is used up",
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.ENOTDIR: "a file is in the place of a folder of its path",
    errno.ENAMETOOLONG: "the path is too long for its file system",
}
# The disk's words for SQLite; a store of which it says so is not damaged.
_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "its disk fails, or has no space left",
    sqlite3.SQLITE_READONLY: "the file cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: _FORBIDDEN,
}
REMEDY = "What was there before is unchanged. Make room or use another path, and run again."


class UnwritableError(RunnerError):
    """A disk does not take what is to be written; what it held before is whole."""


def unwritable(where: str, error: Exception) -> UnwritableError | None:
    """Return what to raise in place of an error of the disk; None where it is another error."""
    what = ""
    match error:
        case OSError():
            what = _ERRNO.get(error.errno or 0, "")
        case sqlite3.OperationalError():
            # One that Python raises itself carries no code and no name.
            if what := _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, ""):
                what += f" ({getattr(error, 'sqlite_errorname', 'SQLite')})"
        case _:
            pass
    return UnwritableError([Problem(where, what, REMEDY)]) if what else None


@contextlib.contextmanager
def told(where: str) -> Iterator[None]:
    """Raise UnwritableError for what the disk refuses within a block."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        told = unwritable(where, error)
        if told is None:
            raise
        raise told from error


def write(path: Path, text: str) -> None:
    """Put a text in its place at once; raises UnwritableError, and then the old one stands."""
    write_all({path: text})


def write_bytes(path: Path, content: bytes) -> None:
    """Put bytes in their place at once, for this user alone to write; raises UnwritableError.

    Several processes may do so: the last one stands, whole.
    """
    with told(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with open(number, "wb") as file:  # noqa: PTH123 - it is open already
                file.write(content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def write_all(files: Mapping[Path, str]) -> None:
    """Put texts in their places once all of them are on the disk; raises UnwritableError.

    Each is written beside its place first, so that a full disk leaves every old one whole.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, text in files.items():
            with told(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)
                draft = path.with_name(f".{path.name}.draft")
                drafts[draft] = path
                draft.write_text(text, encoding="utf-8", newline="")
        with held():  # an interruption between two would leave a set that is neither
            for draft, path in drafts.items():
                with told(str(path)):
                    draft.replace(path)
    except BaseException:
        for draft in drafts:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        raise
