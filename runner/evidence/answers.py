"""Evidence from both places, and of somebody else: each row names where it comes from.

A store or a published set of somebody else is read, and never changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.evidence import published
from repromatrix.runner.evidence.database import addressed, damaged, why_unusable
from repromatrix.runner.evidence.published import Keep
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.files import UnwritableError, told, unwritable
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.paths import Paths
from repromatrix.runner.tempdirs import scratch

_LONGEST = 500
"""Bytes of a path; SQLite's own bound is 512, with what it writes beside a store."""

STORE = "a repromatrix store"
SET = "a folder with publications.toml"
_HEAD = b"SQLite format 3\0"
_BESIDE = ("", "-wal", "-journal")
"""A store, and what SQLite has to read with it."""
_TRIES = 3


@contextlib.contextmanager
def opened(paths: Paths, say: Callable[[str], None]) -> Iterator[Store]:
    """Open this machine's store for the length of a block.

    Raises UnwritableError where its disk takes nothing, at once or later; what it holds stays.
    """
    where = paths.shown(paths.store)
    length = len(os.fsencode(paths.store))
    if length > _LONGEST:
        what = f"the path has {length} bytes; SQLite opens at most {_LONGEST}"
        raise refuse(Problem(where, what, "REPROMATRIX_STORE moves the store."))
    with told(where):
        store = Store(paths.store, say)
    try:
        yield store
    except sqlite3.OperationalError as error:
        raise unwritable(where, error) or error from error
    finally:
        store.close()


@contextlib.contextmanager
def opened_to_read(paths: Paths, say: Callable[[str], None]) -> Iterator[Store]:
    """Open this machine's store, or a copy of it where its disk takes nothing."""
    with contextlib.ExitStack() as stack:
        try:
            store = stack.enter_context(opened(paths, say))
        except UnwritableError as refused:
            try:
                store = stack.enter_context(opened_copy(paths.store))
            except RunnerError:  # what the disk refused when it was to be made
                raise refused from None
        yield store


def published_rows(
    paths: Paths, cases: Collection[str] | None = None, keep: Keep | None = None
) -> list[Observation]:
    """Return the published evidence alone, of some cases where they are named."""
    return list(published.read(paths.published, cases, keep))


def under_torches(
    paths: Paths, cases: Collection[str] | None = None, keep: Keep | None = None
) -> list[Observation]:
    """Return the published evidence under other torches; `both` has what this machine measured."""
    return list(published.read(paths.torches, cases, keep))


def both(
    paths: Paths,
    say: Callable[[str], None],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> list[Observation]:
    """Return published and local evidence; the local comes last, and of two alike is kept."""
    return [*published_rows(paths, cases, keep), *stored(paths, say, cases, keep)]


def stored(
    paths: Paths,
    say: Callable[[str], None],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> list[Observation]:
    """Return local evidence alone."""
    if not paths.store.exists():
        return []
    with opened_to_read(paths, say) as store:
        return list(store.rows(cases, keep))


# Evidence of somebody else


def read_store(path: Path) -> list[Observation]:
    """Return what a store holds, oldest first, each row naming the file as its source.

    Raises RunnerError where it cannot be read, is no store, of a newer format, or damaged.
    """
    with opened_copy(path) as store:
        return [dataclasses.replace(row, source=path.name) for row in checked(path, store.rows())]


@contextlib.contextmanager
def opened_copy(path: Path) -> Iterator[Store]:
    """Open a copy of a store for the length of a block; raises RunnerError as `read_store`."""
    with scratch() as folder:
        try:
            copy = _copied(path.resolve(), folder)
        except OSError as error:
            raise _refused(path, f"the file cannot be read ({error.strerror})") from error
        with copy.open("rb") as file:
            if file.read(len(_HEAD)) != _HEAD:
                raise _refused(path, "not an SQLite database", f"Name {STORE}.")
        try:
            why = why_unusable(copy)
        except RunnerError as error:  # it names the copy
            raise _refused(path, error.faults[0].what, f"Name {STORE}.") from error
        if why:
            raise _refused(path, f"the store {why}")
        try:
            store = Store(copy, lambda _: None)
        except sqlite3.Error as error:
            raise damaged(str(path), error) from error
        try:
            yield store
        finally:
            store.close()


@contextlib.contextmanager
def evidence(path: Path) -> Iterator[tuple[Iterable[Observation], frozenset[tuple[str, str]]]]:
    """Open a store or a published set for the length of a block; raises RunnerError.

    Yield its rows as they were measured: nothing is decided where rows deny each other. And the
    shards that were measured to their end, each with the split that it is of.
    """
    if path.is_dir():
        yield read_set(path), frozenset()
        return
    if not path.is_file():
        what = "neither a file nor a folder" if path.exists() else "the file does not exist"
        raise _refused(path, what, f"Name {STORE}, or {SET}.")
    with opened_copy(path) as store:
        yield checked(path, store.statements()), store.shards()


def checked(path: Path, rows: Iterable[Observation]) -> Iterator[Observation]:
    """Yield the rows of a store, whose errors name the file; raises RunnerError."""
    with addressed(str(path)):
        try:
            yield from rows
        except RunnerError as error:  # it names the copy
            raise _refused(path, error.faults[0].what) from error


def _copied(path: Path, folder: Path) -> Path:
    """Copy a store with what its writer has not yet put into it.

    To open it where it lies would leave files beside it, or miss its last rows.
    """
    copy = folder / "evidence.sqlite"
    for _ in range(_TRIES):
        before = _marks(path)
        for suffix in _BESIDE:
            there, here = path.with_name(path.name + suffix), copy.with_name(copy.name + suffix)
            here.unlink(missing_ok=True)
            if there.exists():
                shutil.copyfile(there, here)
        if _marks(path) == before:
            return copy
    raise _refused(path, "another program is writing to the store", "Try again.")


def _marks(path: Path) -> list[tuple[int, int] | None]:
    """Return size and time of a store's files: they differ once its writer has written."""
    marks: list[tuple[int, int] | None] = []
    for suffix in _BESIDE:
        try:
            facts = path.with_name(path.name + suffix).stat()
        except FileNotFoundError:
            marks.append(None)
        else:
            marks.append((facts.st_size, facts.st_mtime_ns))
    return marks


def read_set(folder: Path) -> list[Observation]:
    """Return what a folder of published evidence holds; raises RunnerError."""
    if not (folder / "publications.toml").is_file():
        inside = folder / "reports" / "published"
        fix = f"Name {inside}." if (inside / "publications.toml").is_file() else ""
        raise _refused(folder, "the folder has no publications.toml", fix)
    with addressed(str(folder)):
        try:
            rows = list(published.read(folder))
        except RunnerError as error:
            faults = [
                dataclasses.replace(fault, where=str(folder / fault.where))
                for fault in error.faults
            ]
            raise RunnerError(faults, error.code) from error
        return rows


def _refused(path: Path, what: str, fix: str = "") -> RunnerError:
    return refuse(Problem(str(path), what, fix))
