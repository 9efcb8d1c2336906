"""What was measured while the store could not be written: kept beside it until the next run."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from repromatrix.runner.errors import RunnerError, more_to_do
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.observation import Observation


def kept(path: Path, rows: Sequence[Observation], error: RunnerError) -> RunnerError:
    """Keep rows beside the store at `path`; return the error, which says where they are.

    Where that cannot be written either the error stays as it was.
    """
    if not rows:
        return error
    try:
        name = _keep(path, rows)
    except (RunnerError, sqlite3.Error, OSError):
        return error
    *others, last = error.faults
    told = f"Cells measured meanwhile ({len(rows)}) are kept as {name}; the next run takes them in."
    return RunnerError([*others, more_to_do(last, told)], error.code)


def _keep(path: Path, rows: Sequence[Observation]) -> str:
    place = path.with_name(f"{path.name}.late-{os.getpid()}")
    # Under another name until it is whole: whoever takes it in removes it.
    draft = place.with_name(f"{place.name}.new")
    with contextlib.closing(Store(draft, lambda _: None)) as store:
        store.put(*rows)
    draft.replace(place)
    return place.name


def take_in(store: Store, say: Callable[[str], None]) -> None:
    """Store what earlier runs could not, and remove where they kept it; raises RunnerError."""
    for place in sorted(store.path.parent.glob(f"{store.path.name}.late-*[0-9]")):
        with contextlib.closing(Store(place, say)) as late:
            rows = list(late.statements())
        store.put(*rows)
        place.unlink(missing_ok=True)
