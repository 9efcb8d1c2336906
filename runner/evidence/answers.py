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
from repromatrix.runner.evidence.database import addressed, connected, why_unusable
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


def published_rows(paths: Paths, cases: Collection[str] | None = None) -> list[Observation]:
    """Return the published evidence alone, of some cases where they are named."""
    return list(published.read(paths.published, cases))


def under_torches(paths: Paths, cases: Collection[str] | None = None) -> list[Observation]:
    """Return the published evidence under other torches; `both` has what this machine measured."""
    return list(published.read(paths.torches, cases))


def both(
    paths: Paths, say: Callable[[str], None], cases: Collection[str] | None = None
) -> list[Observation]:
    """Return published and local evidence; the local comes last, and of two alike is kept."""
    return [*published_rows(paths, cases), *stored(paths, say, cases)]


def stored(
    paths: Paths,
    say: Callable[[str], None],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> list[Observation]:
    """Return local evidence alone; of a store that cannot be used none, and `say` is told why."""
    if not paths.store.exists():
        return []
    with _settled(paths.store) as path:
        if why := why_unusable(path, to_read=True):
            say(f"{paths.store.name} {why}; what it holds does not count.")
            return []
        with contextlib.closing(Store(path, say, to_read=True)) as store:
            return list(store.rows(cases, keep))


@contextlib.contextmanager
def copied(paths: Paths, say: Callable[[str], None]) -> Iterator[Store]:
    """Open a copy of this machine's store for the length of a block, to try something in it."""
    with scratch() as folder:
        copy = folder / paths.store.name
        if paths.store.exists():
            with (
                addressed(paths.store.name),
                _settled(paths.store) as path,
                contextlib.closing(connected(path, to_read=True)) as there,
                contextlib.closing(connected(copy)) as here,
            ):
                there.backup(here)
        with contextlib.closing(Store(copy, say)) as store:
            yield store


@contextlib.contextmanager
def _settled(path: Path) -> Iterator[Path]:
    """Yield where a store can be read without a change: there, or else in a copy.

    A copy is needed where a killed writer left a journal, by which it has to be undone first.
    """
    journal = path.with_name(f"{path.name}-journal")
    try:
        with contextlib.suppress(sqlite3.Error):  # whoever reads it says what is wrong
            connected(path, to_read=True).close()
        is_settled = True
    except UnwritableError:
        is_settled = False
    with contextlib.ExitStack() as kept:
        if not is_settled:
            copy = kept.enter_context(scratch()) / path.name
            path = shutil.copyfile(path, copy)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(journal, copy.with_name(journal.name))
            with contextlib.suppress(sqlite3.Error):
                connected(path).close()
        yield path


# Evidence of somebody else


def read_store(path: Path) -> list[Observation]:
    """Return what a store holds, oldest first, each row naming the file as its source.

    Raises RunnerError where it cannot be read, is no store, of another format, or damaged.
    """
    with opened_to_read(path) as store:
        return [dataclasses.replace(row, source=path.name) for row in checked(path, store.rows())]


@contextlib.contextmanager
def opened_to_read(path: Path) -> Iterator[Store]:
    """Open a store for the length of a block, and leave it as it is; raises as `read_store`."""
    with contextlib.ExitStack() as stack:
        try:
            with path.open("rb") as file:
                if file.read(len(_HEAD)) != _HEAD:
                    raise _refused(path, "not an SQLite database", f"Name {STORE}.")
            settled = stack.enter_context(_settled(path.resolve()))
        except OSError as error:
            raise _refused(path, f"the file cannot be read ({error.strerror})") from error
        try:
            why = why_unusable(settled, to_read=True)
        except RunnerError as error:
            raise _refused(path, error.faults[0].what, f"Name {STORE}.") from error
        if why:
            raise _refused(path, f"the store {why}")
        yield stack.enter_context(contextlib.closing(Store(settled, print, to_read=True)))


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
    with opened_to_read(path) as store:
        yield checked(path, store.statements()), store.shards()


def checked(path: Path, rows: Iterable[Observation]) -> Iterator[Observation]:
    """Yield the rows of a store, whose errors name the file; raises RunnerError."""
    with addressed(str(path)):
        try:
            yield from rows
        except RunnerError as error:  # it has the name alone
            raise _refused(path, error.faults[0].what) from error


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
