"""Evidence from both places, each row naming where it comes from."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator

from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.evidence import published
from repromatrix.runner.evidence.published import Keep
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.files import UnwritableError, told, unwritable
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.paths import Paths

_LONGEST = 500
"""Bytes of a path; SQLite's own bound is 512, with what it writes beside a store."""


@contextlib.contextmanager
def opened(places: Paths, say: Callable[[str], None]) -> Iterator[Store]:
    """Open this machine's store for the length of a block.

    Raises UnwritableError where its disk takes nothing, at once or later; what it holds stays.
    """
    where = places.shown(places.store)
    length = len(os.fsencode(places.store))
    if length > _LONGEST:
        what = f"the path has {length} bytes; SQLite opens at most {_LONGEST}"
        raise refuse(Problem(where, what, "REPROMATRIX_STORE moves the store."))
    with told(where):
        store = Store(places.store, say)
    try:
        yield store
    except sqlite3.OperationalError as error:
        raise unwritable(where, error) or error from error
    finally:
        store.close()


@contextlib.contextmanager
def opened_to_read(places: Paths, say: Callable[[str], None]) -> Iterator[Store]:
    """Open this machine's store, or a copy of it where its disk takes nothing."""
    from repromatrix.runner.evidence import foreign  # noqa: PLC0415 - hardly anybody needs it

    with contextlib.ExitStack() as stack:
        try:
            store = stack.enter_context(opened(places, say))
        except UnwritableError as refused:
            try:
                store = stack.enter_context(foreign.opened(places.store))
            except RunnerError:  # what the disk refused when it was to be made
                raise refused from None
        yield store


def published_rows(
    places: Paths, cases: Collection[str] | None = None, keep: Keep | None = None
) -> list[Observation]:
    """Return the published evidence alone, of some cases where they are named."""
    return list(published.read(places.published, cases, keep))


def both(
    places: Paths,
    say: Callable[[str], None],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> list[Observation]:
    """Return published and local evidence; the local comes last, and of two alike is kept."""
    rows = published_rows(places, cases, keep)
    if places.store.exists():
        with opened_to_read(places, say) as store:
            rows.extend(store.rows(cases, keep))
    return rows
