"""Evidence from both places, each row naming where it comes from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runner.evidence import published

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from runner.evidence.published import Keep
    from runner.evidence.store import Store
    from runner.model.observation import Observation
    from runner.places import Places


@contextlib.contextmanager
def opened(places: Places, say: Callable[[str], None]) -> Iterator[Store]:
    """Open this machine's store for the length of a block."""
    from runner.evidence.store import Store  # noqa: PLC0415 - a fresh clone has none

    store = Store(places.store, say)
    try:
        yield store
    finally:
        store.close()


def published_rows(
    places: Places, cases: Collection[str] | None = None, keep: Keep | None = None
) -> list[Observation]:
    """Return the published evidence alone, of some cases where they are named."""
    return list(published.read(places.published, cases, keep))


def both(
    places: Places,
    say: Callable[[str], None],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> list[Observation]:
    """Return published and local evidence; the local comes last, and of two alike is kept."""
    rows = published_rows(places, cases, keep)
    if places.store.exists():
        with opened(places, say) as store:
            rows.extend(store.rows(cases, keep))
    return rows
