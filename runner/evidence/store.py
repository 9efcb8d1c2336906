"""This machine's evidence in SQLite: one row per cell and identity, written cell by cell.

A kill at any moment loses at most the cells in flight. Several runs may write at once: a row's
key is what was measured, so the same cell measured twice is one row.

What other machines measured is kept in the table `merged`, with a row per key and per thing that is
said of it, so that rows which deny each other stand side by side. Of rows that say the same one is
kept, by an order that holds everywhere: whatever is merged, in which order and how often, the same
is in the table. Both tables are read as one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from repromatrix.runner.evidence import database
from repromatrix.runner.evidence.answering import about, answers, says
from repromatrix.runner.evidence.database import KEY, NAMES
from repromatrix.runner.evidence.published import Keep
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import (
    LOCAL,
    MERGED,
    Failed,
    MemoryUse,
    Observation,
    Provenance,
)
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

_RAN = ("case_digest", "environment_digest", "protocol", "run")
_ran_on = itemgetter(*map(NAMES.index, ("provenance", *_RAN)))
"""Returns what a row ran on, as far as the row itself says it."""

_json = json.JSONEncoder(sort_keys=True).encode

# A row is read for every cell of the table: what is looked up once is not made again.
_precision, _device = functools.cache(Precision), functools.cache(Device)
_outcome, _exercised = functools.cache(Outcome), functools.cache(Exercised)


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not all(isinstance(number, int | float) for number in found.values()):
        message = "something that is no number where a number belongs"
        raise TypeError(message)
    return dict(found)


_MERGED_NAMES = (*NAMES, "said", "identity", "settled")
"""`said` is what a row says, `identity` the row, `settled` the run here that decided otherwise."""

_MARKS = {name: f"?{number}" for number, name in enumerate(_MERGED_NAMES, 1)}
_SAME_RUN = " AND ".join(f"cells.{name}={_MARKS[name]}" for name in (*KEY, "run"))
_PRECEDENCE = "({0}.seconds IS NOT NULL, {0}.run, {0}.identity)"
# What was measured here and comes back to us stays as it is.
_TAKE = f"""
INSERT INTO merged ({", ".join(_MERGED_NAMES)}) SELECT {", ".join(_MARKS.values())}
WHERE NOT EXISTS (SELECT 1 FROM cells WHERE {_SAME_RUN})
ON CONFLICT ({", ".join(KEY)}, said) DO UPDATE SET
    {", ".join(f"{name}=excluded.{name}" for name in _MERGED_NAMES)}
WHERE {_PRECEDENCE.format("excluded")} > {_PRECEDENCE.format("merged")}
"""  # noqa: S608 - our own names
_KEY_IS = " AND ".join(f"{name}=?{number}" for number, name in enumerate(KEY, 1))
_SETTLE = f"UPDATE merged SET settled=?{len(KEY) + 1} WHERE {_KEY_IS} AND settled=''"  # noqa: S608

_ANEW = "Move it away; the next run measures its cells again."
_DROP_UNRUN = (
    "DELETE FROM cells WHERE case_name=? AND workaround=? AND environment=?"
    " AND precision=? AND device=? AND environment_digest=''"
)
_PUT = (
    f"INSERT OR REPLACE INTO cells ({','.join(NAMES)})"  # noqa: S608 - our own names
    f" VALUES ({','.join('?' * len(NAMES))})"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What became of rows that were merged."""

    rows: int
    new: int
    newer: int
    """Rows that took the place of one that says the same."""


class Store:
    """An open store; use it from one thread."""

    def __init__(self, path: Path, say: Callable[[str], None], *, to_read: bool = False) -> None:
        """Open or create; a store that cannot be trusted is kept aside and `say` is told.

        One that is opened `to_read` stays as it is. Raises RunnerError where it can be read or
        written by nobody, or somebody else holds it.
        """
        if not to_read:
            path.parent.mkdir(parents=True, exist_ok=True)
            database.set_aside_if_unusable(path, say)
        self.path = path
        self.written = False
        """Whether something was stored since it was opened."""
        self._db = database.connected(path, to_read=to_read)
        self._db.row_factory = sqlite3.Row
        if not (to_read or self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
            with self.together():
                for statement in filter(str.strip, database.TABLES.split(";")):
                    self._db.execute(statement)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write all that a block writes, or, where it raises, nothing of it.

        Raises RunnerError where it cannot be written.
        """
        nested = self._db.in_transaction
        with database.told(self.path):
            self._db.execute("SAVEPOINT inner" if nested else "BEGIN IMMEDIATE")
            try:
                yield
                if not nested:
                    self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite ends some of them by itself
                    self._db.execute("ROLLBACK TO inner" if nested else "ROLLBACK")
                raise
            if nested:
                self._db.execute("RELEASE inner")

    def close(self) -> None:
        """Close; nothing is pending."""
        self._db.close()

    def put(self, *rows: Observation) -> None:
        """Store observations; a cell that was measured drops what said that it could not be."""
        self.written = self.written or bool(rows)
        with self.together():
            identity_of = _identities(self._db)
            for row in rows:
                if row.provenance.environment_digest:
                    self._db.execute(_DROP_UNRUN, tuple(map(str, row.cell)))
                self._db.execute(_PUT, _values(row, identity_of(row.provenance)))
                if row.is_confirmed:  # it decides what others deny
                    self._db.execute(_SETTLE, (*about(row), row.provenance.run))

    def take(self, rows: Iterable[Observation]) -> Taken:
        """Keep what others measured beside what was measured here: all of it, or none.

        It is read to its end before anybody who writes has to wait.
        """
        every = list(rows)
        self.written = True
        with self.together():
            identity_of, before = _identities(self._db), self._merged()
            found = (
                (*columns, _digest(says(row)), _digest(columns), "")
                for row in every
                for columns in [_values(row, identity_of(row.provenance))]
            )
            changes = self._db.executemany(_TAKE, found).rowcount
            new = self._merged() - before
            return Taken(rows=len(every), new=new, newer=max(changes, 0) - new)

    def _merged(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM merged").fetchone()[0])

    def begin_shard(self, split: str) -> None:
        """Forget the shards of other splits: what is measured from now on is not theirs."""
        with self.together():
            self._db.execute("DELETE FROM shards WHERE split<>?", (split,))

    def end_shard(self, shard: str, split: str, run: str) -> None:
        """Keep that a run of this store measured its whole share of a split."""
        with self.together():
            self._db.execute("INSERT OR REPLACE INTO shards VALUES (?,?,?)", (shard, split, run))

    def shards(self) -> frozenset[tuple[str, str]]:
        """Return the shards that were measured to their end, each with its split."""
        return frozenset(map(tuple, self._db.execute("SELECT shard, split FROM shards")))

    def seed(self) -> int | None:
        """Return the seed of the last run that confirmed what is published, if there was one."""
        newest = "SELECT seed FROM confirmation ORDER BY rowid DESC LIMIT 1"
        return next((int(seed) for (seed,) in self._db.execute(newest)), None)

    def begin_confirmation(self, seed: int, run: str) -> None:
        """Keep that a run confirms what is published, by a seed."""
        with self.together():
            self._db.execute("INSERT INTO confirmation VALUES (?,?)", (seed, run))

    def confirmations(self, seed: int) -> frozenset[str]:
        """Return the runs that confirmed what is published by a seed."""
        runs = self._db.execute("SELECT run FROM confirmation WHERE seed=?", (seed,))
        return frozenset(run for (run,) in runs)

    def rows(
        self, cases: Collection[str] | None = None, keep: Keep | None = None
    ) -> Iterator[Observation]:
        """Yield what answers for all that is stored, or for some cases, oldest first.

        Raises RunnerError at a row that is damaged.
        """
        with database.addressed(self.path.name, _ANEW):
            # What others measured, and nobody has settled here.
            merged = list(self._select("merged", cases, keep, "settled=''"))
            own = self._select("cells", cases, keep)
            yield from answers([*own, *merged]) if merged else own

    def statements(self) -> Iterator[Observation]:
        """Yield every row as it was measured, here and elsewhere, whatever denies it.

        Raises RunnerError at a row that is damaged.
        """
        with database.addressed(self.path.name, _ANEW):
            yield from self._select("cells")
            yield from self._select("merged")

    def _select(
        self,
        table: str,
        cases: Collection[str] | None = None,
        keep: Keep | None = None,
        which: str = "",
    ) -> Iterator[Observation]:
        names = list(cases or ())
        asked = [which] if which else []
        if cases is not None:
            asked.append(f"case_name IN ({','.join('?' * len(names))})")
        if keep is not None:
            self._db.create_function("wanted", 5, _wanted(keep))
            asked.append("wanted(case_name, workaround, environment, precision, device)")
        within = f"WHERE {' AND '.join(asked)}" if asked else ""
        order = "rowid" if table == "cells" else ", ".join([*KEY, "said"])
        columns = ", ".join(NAMES)
        cells = self._db.execute(f"SELECT {columns} FROM {table} {within} ORDER BY {order}", names)  # noqa: S608 - our own words and marks
        found = cells.fetchall()
        if not found:
            return
        # After the cells: what another run stores in between must not lack its provenance.
        ran = {row["id"]: _shared(row) for row in self._db.execute("SELECT * FROM provenances")}
        known: dict[tuple[object, ...], Provenance] = {}
        for row in found:
            key = _ran_on(row)
            if key not in known:
                own = {name: row[name] for name in _RAN}
                known[key] = Provenance(**own, **ran[row["provenance"]])
            yield _observation(row, known[key], LOCAL if table == "cells" else MERGED)


def _wanted(keep: Keep) -> Callable[[str, str, str, str, str], bool]:
    """Return a function for SQLite, so that what is not wanted is not read."""
    variant = functools.cache(keep)

    def wanted(case: str, workaround: str, environment: str, precision: str, device: str) -> bool:
        environments = variant(case, workaround, _precision(precision), _device(device))
        return environments is None or environment in environments

    return wanted


def _digest(facts: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(facts).encode(errors="backslashreplace")).hexdigest()[:16]


# An observation as the columns of a row, and back


def _values(row: Observation, provenance: str) -> tuple[object, ...]:
    return (
        *map(str, row.cell),
        row.provenance.case_digest,
        row.provenance.environment_digest,
        row.provenance.protocol,
        str(row.outcome),
        *(dataclasses.astuple(row.failed) if row.failed else (None,) * 4),
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
        *(dataclasses.astuple(row.memory) if row.memory else (None, None)),
    )


def _identities(db: sqlite3.Connection) -> Callable[[Provenance], str]:
    """Return a function that writes what rows ran on, once for all that share it, and names it."""
    known: dict[int, tuple[Provenance, str]] = {}

    def identity_of(ran: Provenance) -> str:
        if id(ran) not in known:
            facts = (
                _json(dict(ran.packages)),
                ran.python,
                ran.torch_build,
                ran.hardware,
                _json(dict(ran.imported)),
            )
            identity = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
            db.execute("INSERT OR IGNORE INTO provenances VALUES (?,?,?,?,?,?)", (identity, *facts))
            known[id(ran)] = ran, identity  # kept, so that no other gets its number
        return known[id(ran)][1]

    return identity_of


def _shared(row: sqlite3.Row) -> dict[str, Any]:
    """Read what many cells ran on, once for all of them."""
    found = {name: row[name] for name in ("python", "torch_build", "hardware")}
    maps = {name: dict(json.loads(row[name])) for name in ("packages", "imported")}
    texts = [*found.values(), *(text for pairs in maps.values() for text in pairs.values())]
    if not all(isinstance(text, str) for text in texts):
        message = "something that is no text where a text belongs"
        raise TypeError(message)
    return {**found, **maps}


def _observation(row: sqlite3.Row, ran: Provenance, source: str) -> Observation:
    """Read an observation; raises ValueError where a word is none of ours, TypeError for a value.

    Whoever reads it may rely on the types that it declares.
    """
    database.check_kinds(tuple(map(type, row)))
    # fmt: off
    (
        case, workaround, environment, precision, device, _, _, _,
        outcome, error_class, message, signature, traceback, reason, exercised,
        computed, measured, unstable, repeats, seconds, output, _, _, peak, limit,
    ) = row
    # fmt: on
    failed = None
    if (None in (message, signature, traceback)) != (error_class is None):
        text = "half of an error"
        raise TypeError(text)
    if (peak is None) != (limit is None):
        text = "memory without its limit"
        raise TypeError(text)
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
        computed=_numbers(computed),
        measured=_numbers(measured),
        unstable=bool(unstable),
        repeats=repeats,
        seconds=seconds,
        output=output,
        memory=None if peak is None else MemoryUse(peak=peak, limit=limit),
    )
