"""An observation as the columns of a store, and back."""

from __future__ import annotations

import functools
import hashlib
import json
import sqlite3
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, cast

from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Failed, MemoryUse, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

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
"""In the order of `values`."""

LATER = ("peak_mib INTEGER", "limit_mib INTEGER")
"""Columns that older formats lack: behind all others, where they are added to a table of those."""

NAMES = tuple(line.split()[0] for line in (*COLUMNS.split(","), *LATER))
_RAN = ("provenance", "case_digest", "environment_digest", "protocol", "run")
ran_on = itemgetter(*map(NAMES.index, _RAN))
"""Return what a row ran on, as far as the row itself says it."""


_json = json.JSONEncoder(sort_keys=True).encode

# A row is read for every cell of the table: what is looked up once is not made again.
_precision, _device = functools.cache(Precision), functools.cache(Device)
_outcome, _exercised = functools.cache(Outcome), functools.cache(Exercised)


def values(row: Observation, provenance: str) -> tuple[object, ...]:
    """Return the columns of an observation."""
    failed, memory = row.failed, row.memory
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
        memory.peak if memory else None,
        memory.limit if memory else None,
    )


class Identities:
    """What rows ran on, written once for all rows that share it."""

    def __init__(self, db: sqlite3.Connection, table: str = "provenances") -> None:
        """Write to a table within the caller's transaction."""
        self._db = db
        self._insert = f"INSERT OR IGNORE INTO {table} VALUES (?,?,?,?,?,?)"  # noqa: S608 - our own names
        self._known: dict[int, tuple[Provenance, str]] = {}

    def of(self, ran: Provenance) -> str:
        """Return the identity of what a row ran on, which is in the table then."""
        if id(ran) not in self._known:
            facts = (
                _json(dict(ran.packages)),
                ran.python,
                ran.torch_build,
                ran.hardware,
                _json(dict(ran.imported)),
            )
            identity = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
            self._db.execute(self._insert, (identity, *facts))
            self._known[id(ran)] = ran, identity  # kept, so that no other gets its number
        return self._known[id(ran)][1]


def shared(row: sqlite3.Row) -> dict[str, Any]:
    """Read what many cells ran on, once for all of them."""
    return {
        "packages": json.loads(row["packages"]),
        "python": row["python"],
        "torch_build": row["torch_build"],
        "hardware": row["hardware"],
        "imported": json.loads(row["imported"]),
    }


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> Mapping[str, float]:
    """Read numbers by name; cells that did the same have the same, so few texts are read."""
    return cast("Mapping[str, float]", json.loads(text))


def observation(row: sqlite3.Row, ran: Provenance, source: str) -> Observation:
    """Read an observation; raises ValueError where a word is none of ours."""
    # fmt: off
    (
        case, workaround, environment, precision, device, _, _, _,
        outcome, error_class, message, signature, traceback, reason, exercised,
        computed, measured, unstable, repeats, seconds, output, *_, peak, limit,
    ) = row  # at once: each rest in between would be one more list for every row
    # fmt: on
    failed = None
    if error_class is not None:
        failed = Failed(
            error_class=error_class, message=message, signature=signature, traceback=traceback
        )
    return Observation(
        cell=Cell(case, workaround, environment, _precision(precision), _device(device)),
        outcome=_outcome(outcome),
        provenance=ran,
        source=source,
        failed=failed,
        reason=reason,
        exercised=_exercised(exercised),
        computed=cast("Mapping[str, int]", _numbers(computed)),
        measured=_numbers(measured),
        unstable=bool(unstable),
        repeats=repeats,
        seconds=seconds,
        output=output,
        memory=None if peak is None else MemoryUse(peak=peak, limit=limit),
    )


def provenance(row: sqlite3.Row, ran: Mapping[str, Any]) -> Provenance:
    """Return what a row ran on; `ran` is what it has in common with others."""
    return Provenance(
        case_digest=row["case_digest"],
        environment_digest=row["environment_digest"],
        protocol=row["protocol"],
        run=row["run"],
        **ran,
    )
