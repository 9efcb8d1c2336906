"""What earlier landed versions wrote is read whole; what a later one writes is refused."""

from __future__ import annotations

import contextlib
import csv
import gzip
import sqlite3
import tarfile
from pathlib import Path

import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import answers, published
from repromatrix.runner.evidence.database import VERSION
from repromatrix.runner.evidence.store import Store

EARLIER = Path(__file__).parents[1] / "fixtures" / "earlier"
"""Each file is named after its format and the commit whose code wrote it."""
CELL = ("case_name", "workaround", "environment", "precision", "device")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (packed,) = EARLIER.glob(f"store-{VERSION}-*.sqlite.gz")
    path = tmp_path / "evidence.sqlite"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    for path in EARLIER.glob("published-*.tar.gz"):
        with tarfile.open(path) as files:
            files.extractall(tmp_path / path.name, filter="data")
    return [*tmp_path.glob("*/reports/published")]


def test_every_row_of_a_store_is_read(store: Path) -> None:
    columns = ", ".join((*CELL, "outcome", "COALESCE(message, '')", "seconds", "output"))
    with contextlib.closing(sqlite3.connect(store)) as database:
        query = f"SELECT {columns} FROM cells UNION ALL SELECT {columns} FROM merged"  # noqa: S608
        written = sorted(database.execute(query))
    with contextlib.closing(Store(store, pytest.fail)) as opened:
        read = sorted(
            (
                *row.cell,
                row.outcome,
                row.failed.message if row.failed else "",
                row.seconds,
                row.output,
            )
            for row in opened.statements()
        )

    assert len(written) == 18
    assert read == written


def test_every_row_of_a_published_set_is_read(sets: list[Path]) -> None:
    assert len(sets) == 3
    for folder in sets:
        written = []
        for path in published.cell_files(folder):
            with path.open(newline="") as file:
                written += [
                    (path.stem, row["workaround"], name, row["precision"], row["outcome"])
                    for row in csv.DictReader(file)
                    for name in row["releases"].split()
                ]
        read = [(*row.cell[:4], row.outcome) for row in answers.read_set(folder)]

        assert len(written) > 400
        assert sorted(read) == sorted(written)


def test_evidence_of_a_future_format_is_refused(store: Path, sets: list[Path]) -> None:
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")
    told = sets[0] / "publications.toml"
    told.write_text(told.read_text().replace("format = 1", "format = 2"))

    with pytest.raises(RunnerError, match="newer version"):
        answers.read_store(store)
    with pytest.raises(RunnerError, match="the file has format 2"):
        answers.read_set(sets[0])
