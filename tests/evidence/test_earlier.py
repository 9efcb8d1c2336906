"""What earlier landed versions wrote is read whole; what a later one writes is refused."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tarfile
from pathlib import Path

import earlier
import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.database import VERSION
from repromatrix.runner.evidence.store import Store


@pytest.mark.parametrize(
    ("files", "rows"), [(earlier.stores(), 18), (earlier.sets(), 3186)], ids=["stores", "sets"]
)
def test_no_row_of_an_earlier_format_is_misread(files: list[Path], rows: int) -> None:
    found = [earlier.rows_of(path) for path in files]

    assert sum(len(written) for written, _ in found) == rows
    assert [written for written, _ in found] == [read for _, read in found]


def test_a_row_that_is_changed_is_seen(tmp_path: Path) -> None:
    with tarfile.open(earlier.sets()[0]) as files:
        files.extractall(tmp_path, filter="data")
    (sheet,) = (tmp_path / "reports" / "published" / "cpu").glob("*.csv")
    written, _ = earlier.rows_of(earlier.sets()[0])
    sheet.write_text(sheet.read_text().replace("fails", "passes", 1))
    with tarfile.open(tmp_path / "published-1-x.tar.gz", "w:gz") as files:
        files.add(tmp_path / "reports", "reports")
    _, read = earlier.rows_of(tmp_path / "published-1-x.tar.gz")

    assert len(set(written) - set(read)) >= 1


def test_a_store_of_this_format_is_tried() -> None:
    formats = {int(path.name.split("-")[1]) for path in earlier.stores()}

    assert formats == {VERSION}


def test_evidence_of_a_future_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    Store(path, print).close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")
    with tarfile.open(earlier.sets()[0]) as files:
        files.extractall(tmp_path, filter="data")
    folder = tmp_path / "reports" / "published"
    told = folder / "publications.toml"
    told.write_text(told.read_text().replace("format = 1", "format = 2"))

    with pytest.raises(RunnerError, match="newer version"):
        answers.read_store(path)
    with pytest.raises(RunnerError, match="the file has format 2"):
        answers.read_set(folder)
    shutil.rmtree(folder)
