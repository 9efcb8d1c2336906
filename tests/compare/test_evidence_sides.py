"""`diff` of evidence files: stores, published sets and publications, read and never changed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from factories import cell, seen
from rich.console import Console

from repromatrix.runner.cli.diff import DiffOptions, compare_sides
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import published
from repromatrix.runner.evidence.answers import read_store
from repromatrix.runner.evidence.database import VERSION
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.observation import Failed
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.observation import Observation

QUIET = Console(quiet=True)
KEPT = "switch_transformers_router_half"
PUBLICATION = "2026-11-21"


def compared(before: str | Path, after: str | Path, **changed: Any) -> ExitCode:  # noqa: ANN401
    options = DiffOptions(before=str(before), after=str(after), **{"format": "json", **changed})
    return compare_sides(Paths(), options, QUIET)


def stored(path: Path, *rows: Observation) -> Path:
    with contextlib.closing(Store(path, pytest.fail)) as store:
        store.put(*rows)
    return path


def listed(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Real files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> list[Observation]:
    """Return what is published of one case in 4.49.0 to 5.0.0, plain."""
    found = published.read(Paths().published, [KEPT])
    wanted = {"4.49.0", "4.50.0", "4.50.1", "4.51.0", "5.0.0"}
    return [row for row in found if row.cell.environment in wanted and not row.cell.workaround]


def edited(row: Observation) -> Observation | None:
    """Return what another machine stored of a cell; None where it did not measure it."""
    ran = row.provenance
    match (row.cell.environment, row.cell.precision):
        case ("4.50.0", Precision.BF16):
            how = Failed(error_class="KeyError", message="elsewhere", signature="KeyError: it")
            return dataclasses.replace(row, outcome=Outcome.FAILS, failed=how)
        case ("5.0.0", Precision.BF16):
            return dataclasses.replace(row, outcome=Outcome.PASSES, failed=None)
        case ("4.50.1", Precision.BF16):
            return dataclasses.replace(row, provenance=dataclasses.replace(ran, case_digest="0"))
        case ("4.51.0", Precision.FP16):
            return None
        case ("4.49.0", Precision.FP16):
            return dataclasses.replace(row, outcome=Outcome.OUT_OF_MEMORY)
        case _:
            return row


def test_a_store_of_another_machine_is_compared_with_what_is_published(
    rows: list[Observation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "from afar"
    folder.mkdir()
    there = [one for row in rows if (one := edited(row))]
    more = dataclasses.replace(rows[0], cell=rows[0].cell._replace(environment="9.0.0"))
    other = stored(folder / "other machine.sqlite", *there, more)
    before = listed(folder)
    releases = {row.cell.environment for row in rows}
    code = compared(PUBLICATION, other, case=[KEPT])
    told = json.loads(capsys.readouterr().out)
    found = {
        (one["environment"], one["precision"]): (one["change"], one["grounds"])
        for one in told["cells"]
        if one["environment"] in {*releases, "9.0.0"} and not one["workaround"]
    }

    assert code is ExitCode.UNEXPECTED
    assert found == {
        ("4.50.0", "bf16"): ("broke", []),
        ("5.0.0", "bf16"): ("fixed", []),
        ("4.50.1", "bf16"): ("same", ["case"]),
        ("4.51.0", "fp16"): ("gone", []),
        ("4.49.0", "fp16"): ("unknown", []),
        ("9.0.0", "fp32"): ("new", []),
    }
    assert told["not-the-same-cells"]["same"] == 1
    assert str(tmp_path) not in json.dumps([told["before"], told["headline"], told["after"]])
    assert listed(folder) == before


@pytest.mark.whole
def test_a_published_set_differs_from_a_publication_only_in_what_others_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "published"
    shutil.copytree(Paths().published, folder)
    compared(folder, PUBLICATION)
    told = json.loads(capsys.readouterr().out)
    rows = [*published.read(Paths().published)]
    others = {row.cell.case for row in rows if row.source != PUBLICATION}

    assert {one["case"] for one in told["cells"] if one["change"] != "unknown"} == others
    assert told["counts"]["same"] == sum(
        row.outcome.was_run for row in rows if row.source == PUBLICATION
    )
    assert not Paths().store.exists()


def test_what_is_another_cell_on_each_side_decides_nothing(tmp_path: Path) -> None:
    row = seen(Outcome.PASSES)
    ran = dataclasses.replace(row.provenance, environment_digest="another")
    one = stored(tmp_path / "one.sqlite", row)
    other = stored(tmp_path / "other.sqlite", dataclasses.replace(row, provenance=ran))

    assert compared(one, other) is ExitCode.UNDECIDED
    assert compared(one, one) is ExitCode.AS_EXPECTED


def test_of_a_cell_that_was_measured_twice_the_later_row_counts(tmp_path: Path) -> None:
    early = seen(Outcome.PASSES)
    ran = dataclasses.replace(early.provenance, case_digest="edited", run="later")
    late = dataclasses.replace(seen(Outcome.FAILS), provenance=ran)
    one = stored(tmp_path / "one.sqlite", early, late)
    other = stored(tmp_path / "other.sqlite", late)

    assert compared(one, other) is ExitCode.AS_EXPECTED


def _copied(live: Path, folder: Path) -> Path:
    """Copy a store with what its writer has beside it; return where it is."""
    folder.mkdir()
    for path in live.parent.glob("live.sqlite*"):
        shutil.copy(path, folder)
    return folder / live.name


def test_what_a_killed_writer_left_half_written_is_not_read(tmp_path: Path) -> None:
    rows = [dataclasses.replace(seen(at=cell(name=f"a{n}")), output="x" * 5000) for n in range(99)]
    live = stored(tmp_path / "live.sqlite", *rows)
    with contextlib.closing(sqlite3.connect(live, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size=1")
        database.execute("BEGIN")
        database.execute("UPDATE cells SET output='half written' || output")
        copy = _copied(live, tmp_path / "copy")
    before = listed(copy.parent)

    assert len(before) == 2
    assert b"half written" in copy.read_bytes()
    assert {row.output for row in read_store(copy)} == {"x" * 5000}
    assert listed(copy.parent) == before


# Bad input --------------------------------------------------------------------------------------


def refused(before: str | Path, after: str | Path) -> str:
    with pytest.raises(RunnerError) as caught:
        compared(before, after)
    (fault,) = caught.value.faults

    assert caught.value.code is ExitCode.BAD_INPUT
    return fault.what


def _changed(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


NEWER = f"was written by a newer version (format {VERSION + 1}, this one reads {VERSION})"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"PRAGMA user_version={VERSION + 1}", f"the store {NEWER}"),
        (
            "DROP TABLE cells",
            "this SQLite file is not a repromatrix store (its tables: confirmation, merged, ",
        ),
        (
            "ALTER TABLE cells DROP COLUMN output",
            "the store is damaged (cells with other columns)",
        ),
    ],
)
def test_a_store_that_cannot_be_trusted_is_refused_and_left_as_it_is(
    statement: str, expected: str, tmp_path: Path
) -> None:
    folder = tmp_path / "from afar"
    folder.mkdir()
    other = stored(folder / "other.sqlite", seen())
    _changed(other, statement)
    before = listed(folder)

    assert refused(other, PUBLICATION).startswith(expected)
    assert listed(folder) == before
