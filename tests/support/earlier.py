"""Stores and published evidence that earlier landed versions wrote, read by this one; what has to
come out is read by SQLite and by Python's own readers of CSV and JSON.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from repromatrix.runner.evidence import published
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.observation import Observation

EARLIER = Path(__file__).parents[1] / "fixtures" / "earlier"
"""Each named after its format and the commit whose code wrote it."""
Row = tuple[object, ...]


def stores() -> list[Path]:
    return sorted(EARLIER.glob("store-*.sqlite.gz"))


def sets() -> list[Path]:
    return sorted(EARLIER.glob("published-*.tar.gz"))


def rows_of(path: Path) -> tuple[list[Row], list[Row]]:
    """Return what a file holds by readers that are not ours, and by ours."""
    with tempfile.TemporaryDirectory() as name:
        if path.suffixes[0] == ".tar":
            with tarfile.open(path) as files:
                files.extractall(name, filter="data")
            folder = Path(name) / "reports" / "published"
            return sorted(_written_set(folder)), sorted(map(_facts, published.read(folder)))
        store = Path(name) / "evidence.sqlite"
        with gzip.open(path) as packed, store.open("wb") as file:
            shutil.copyfileobj(packed, file)
        return _written_store(store), _read_store(store)


def _written_store(path: Path) -> list[Row]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        names = {one for (one,) in database.execute("SELECT name FROM sqlite_master")}
        tables = sorted({"cells", "merged"} & names)
        rows = [row for one in tables for row in database.execute(f"SELECT * FROM {one}")]  # noqa: S608
        ran = {row["id"]: row for row in database.execute("SELECT * FROM provenances")}
        return sorted(_stored_facts(row, ran[row["provenance"]]) for row in rows)


def _stored_facts(row: sqlite3.Row, ran: sqlite3.Row) -> Row:
    plain = ("reason", "exercised", "unstable", "repeats", "output", "protocol", "run")
    return (
        *(row[name] for name in ("case_name", "workaround", "environment", "precision", "device")),
        *(row[name] for name in ("case_digest", "environment_digest", "outcome")),
        *(row[name] or "" for name in ("error_class", "message", "signature", "traceback")),
        *(row[name] for name in plain),
        repr(row["seconds"]),
        *(_same(json.loads(row[name])) for name in ("computed", "measured")),
        *(_same(json.loads(ran[name])) for name in ("packages", "imported")),
        *(ran[name] for name in ("python", "torch_build", "hardware")),
    )


def _read_store(path: Path) -> list[Row]:
    said: list[str] = []
    with contextlib.closing(Store(path, said.append)) as store:
        rows = [*map(_facts_of_store, store.statements())]
    return sorted(rows) if not said else []


def _facts_of_store(row: Observation) -> Row:
    ran = row.provenance
    own = (ran.case_digest, ran.environment_digest, str(row.outcome))
    rest = (row.reason, str(row.exercised), row.unstable, row.repeats, row.output)
    return (
        *map(str, row.cell),
        *own,
        *_failure(row),
        *rest,
        *(ran.protocol, ran.run, repr(row.seconds)),
        *(_same(dict(row.computed)), _same(dict(row.measured))),
        *(_same(dict(ran.packages)), _same(dict(ran.imported))),
        *(ran.python, ran.torch_build, ran.hardware),
    )


def _failure(row: Observation) -> tuple[str, ...]:
    one = row.failed
    return (one.error_class, one.message, one.signature, one.traceback) if one else ("",) * 4


def _written_set(folder: Path) -> Iterator[Row]:
    with (folder / "environments.csv").open(newline="") as file:
        held = {(one["environment"], one["publication"]): one for one in csv.DictReader(file)}
    for path in published.cell_files(folder):
        about = json.loads(path.with_suffix(".json").read_text())
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                for name in row["releases"].split():
                    cell = (path.stem, row["workaround"], name, row["precision"], path.parent.name)
                    own = held[name, row["publication"]]
                    yield (*cell, about["case-digest"], *_line(row, own, about["failures"]))


def _line(row: dict[str, str], held: dict[str, str], failures: dict[str, dict[str, object]]) -> Row:
    one = failures.get(row["failure"])
    failure = ("", "", "", "")
    if one:
        lines = "\n".join(map(str, one["traceback"]))  # type: ignore[call-overload]
        failure = (str(one["class"]), str(one["message"]), str(one["signature"]), lines)
    names = ("transformers", "accelerate", "peft")
    return (
        *(held["digest"], row["outcome"], *failure, row["exercised"]),
        *(row["flags"] == "unstable", row["publication"]),
        *(_pairs(row["computed"]), _pairs(row["measured"])),
        _same({name: held[name] for name in names if held[name]}),
        *(held["python"], held["torch"]),
    )


def _facts(row: Observation) -> Row:
    ran = row.provenance
    return (
        *map(str, row.cell),
        *(ran.case_digest, ran.environment_digest, str(row.outcome)),
        *(*_failure(row), str(row.exercised), row.unstable, ran.run),
        *(_same(dict(row.computed)), _same(dict(row.measured)), _same(dict(ran.packages))),
        *(ran.python, ran.torch_build),
    )


def _pairs(text: str) -> str:
    return _same({one.rpartition("=")[0]: float(one.rpartition("=")[2]) for one in text.split()})


def _same(found: dict[str, object]) -> str:
    return repr(sorted((name, _number(value)) for name, value in found.items()))


def _number(value: object) -> object:
    return float(value) if isinstance(value, int) else value
