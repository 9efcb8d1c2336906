"""An observation as the columns of a store, and back."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple, cast

from runner.model.cell import Cell
from runner.model.observation import Failed, Observation, Provenance
from runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

KEY = (
    *("case_name", "workaround", "environment", "precision", "device"),
    *("case_digest", "environment_digest", "protocol"),
)
"""What was measured: two rows that agree in these are about the same thing."""

RAN = ("provenance", "case_digest", "environment_digest", "protocol", "run")
"""What a cell ran on."""

COLUMNS = """
    case_name TEXT NOT NULL, workaround TEXT NOT NULL, environment TEXT NOT NULL,
    precision TEXT NOT NULL, device TEXT NOT NULL, case_digest TEXT NOT NULL,
    environment_digest TEXT NOT NULL, protocol INTEGER NOT NULL,
    outcome TEXT NOT NULL, error_class TEXT, message TEXT, signature TEXT, traceback TEXT,
    reason TEXT NOT NULL, exercised TEXT NOT NULL, computed TEXT NOT NULL, measured TEXT NOT NULL,
    unstable INTEGER NOT NULL, repeats INTEGER NOT NULL, seconds REAL, output TEXT NOT NULL,
    run TEXT NOT NULL, provenance TEXT NOT NULL REFERENCES provenances(id)"""
"""In the order of `values`."""


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def provenance_row(found: Provenance) -> tuple[str, tuple[str, ...]]:
    """Return the identity of what a cell ran on, and its row."""
    facts = (
        _json(dict(found.packages)),
        found.python,
        found.torch_build,
        found.hardware,
        _json(dict(found.imported)),
    )
    identity = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return identity, (identity, *facts)


def values(row: Observation, provenance: str) -> tuple[object, ...]:
    """Return the columns of an observation."""
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


class Held(NamedTuple):
    """What many cells ran on, read once."""

    packages: dict[str, str]
    python: str
    torch_build: str
    hardware: str
    imported: dict[str, str]


def held(row: sqlite3.Row) -> Held:
    """Read what many cells ran on."""
    return Held(
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


def observation(row: sqlite3.Row, ran: Provenance, source: str) -> Observation:
    """Read an observation; raises ValueError where a word is none of ours."""
    return Observation(
        cell=cell_of(row),
        outcome=Outcome(row["outcome"]),
        provenance=ran,
        source=source,
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


def provenance(row: sqlite3.Row, held: Held) -> Provenance:
    """Return what a row ran on."""
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
