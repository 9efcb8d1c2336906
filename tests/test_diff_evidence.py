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

from runner.commands.diff import Comparing, compare_sides
from runner.comparing.evidence import ALLOWED
from runner.errors import ExitCode, RunnerError
from runner.evidence import published
from runner.evidence.foreign import STORE, read_store
from runner.evidence.store import VERSION, Store
from runner.model.observation import Failed
from runner.model.outcomes import Outcome, Precision
from runner.places import Places
from runner.planning.selection import Wish

if TYPE_CHECKING:
    from pathlib import Path

    from runner.model.observation import Observation

QUIET = Console(quiet=True)
KEPT = "gpt2_tuple_past"
PUBLICATION = "2026-11-21"


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "evidence.sqlite"))


def compared(before: str | Path, after: str | Path, **changed: Any) -> ExitCode:  # noqa: ANN401
    wish = {name: changed.pop(name) for name in ("case", "area", "precision") if name in changed}
    given = {"format": "json", "jobs": 0, "rerun": False, "every_device": True, **changed}
    options = Comparing(before=str(before), after=str(after), wish=Wish(**wish), **given)
    return compare_sides(Places(), options, QUIET)


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
    found = published.read(Places().published, [KEPT])
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


def test_a_published_set_differs_from_a_publication_only_in_what_others_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "published"
    shutil.copytree(Places().published, folder)
    compared(folder, PUBLICATION)
    told = json.loads(capsys.readouterr().out)
    rows = [*published.read(Places().published)]
    others = {row.cell.case for row in rows if row.source != PUBLICATION}

    assert {one["case"] for one in told["cells"] if one["change"] != "unknown"} == others
    assert told["counts"]["same"] == sum(
        row.outcome.was_run for row in rows if row.source == PUBLICATION
    )
    assert not Places().store.exists()


@pytest.mark.parametrize("kind", ["text", "markdown"])
def test_two_stores_are_compared_without_a_case_of_ours(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = stored(tmp_path / "one.sqlite", seen(Outcome.FAILS))
    other = stored(tmp_path / "other.sqlite", seen(Outcome.PASSES))
    code = compared(one, other, format=kind)
    told = capsys.readouterr().out

    assert code is ExitCode.UNEXPECTED
    assert "1 fixed" in told
    assert (str(tmp_path) in told) is (kind == "text")


def test_what_is_another_cell_on_each_side_decides_nothing(tmp_path: Path) -> None:
    row = seen(Outcome.PASSES)
    ran = dataclasses.replace(row.provenance, environment_digest="another")
    one = stored(tmp_path / "one.sqlite", row)
    other = stored(tmp_path / "other.sqlite", dataclasses.replace(row, provenance=ran))

    assert compared(one, other) is ExitCode.UNDECIDED
    assert compared(one, one) is ExitCode.AS_EXPECTED


def test_of_a_cell_that_was_measured_twice_the_later_row_counts(tmp_path: Path) -> None:
    early = seen(Outcome.PASSES)
    ran = dataclasses.replace(early.provenance, case_digest="edited")
    late = dataclasses.replace(seen(Outcome.FAILS), provenance=ran)
    one = stored(tmp_path / "one.sqlite", early, late)
    other = stored(tmp_path / "other.sqlite", late)

    assert compared(one, other) is ExitCode.AS_EXPECTED


def test_rows_that_their_writer_has_not_yet_put_into_the_store_are_read(tmp_path: Path) -> None:
    folder, live = tmp_path / "copy", tmp_path / "live.sqlite"
    folder.mkdir()
    store = Store(live, pytest.fail)
    store.put(seen(at=cell("4.50.0")), seen(at=cell("4.51.0")))
    for path in (live, live.with_name("live.sqlite-wal")):
        shutil.copy(path, folder)
    store.close()
    before = listed(folder)
    found = read_store(folder / "live.sqlite")

    assert len(before) == 2
    assert [(row.cell.environment, row.source) for row in found] == [
        ("4.50.0", "live.sqlite"),
        ("4.51.0", "live.sqlite"),
    ]
    assert listed(folder) == before


# Bad input --------------------------------------------------------------------------------------


def refused(before: str | Path, after: str | Path, **changed: Any) -> tuple[str, str]:  # noqa: ANN401
    with pytest.raises(RunnerError) as caught:
        compared(before, after, **changed)
    (fault,) = caught.value.faults

    assert caught.value.code is ExitCode.BAD_INPUT
    return fault.found, fault.allowed


def _changed(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


NEWER = f"was written by a newer version (format {VERSION + 1}, this one reads {VERSION})"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"PRAGMA user_version={VERSION + 1}", f"a store that {NEWER}"),
        ("DROP TABLE cells", "an SQLite database with other tables (merged, provenances, shards)"),
        ("UPDATE cells SET outcome='melts'", "damaged: ValueError: 'melts' is not a valid Outcome"),
        ("UPDATE cells SET measured='nothing'", "damaged: JSONDecodeError: Expecting value"),
        ("UPDATE cells SET measured='[1]'", "damaged: AttributeError: "),
        ('UPDATE cells SET measured=\'{"error": "big"}\'', "damaged: TypeError: something that"),
        ("UPDATE cells SET reason=x'00'", "damaged: TypeError: something that is no text"),
        ("UPDATE cells SET error_class='E', message='m', signature='s'", "damaged: TypeError: som"),
        ("UPDATE cells SET seconds='long'", "damaged: TypeError: something that is no number"),
        ("DELETE FROM provenances", "damaged: KeyError: "),
        (
            "ALTER TABLE cells DROP COLUMN output",
            "a store that is damaged (cells with other columns)",
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
    found, allowed = refused(other, PUBLICATION)

    assert found.startswith(expected)
    assert (allowed, listed(folder)) == (STORE, before)


def test_a_store_that_was_cut_off_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    other = stored(tmp_path / "other.sqlite", *(seen(at=cell(name=f"a{n}")) for n in range(200)))
    whole = other.read_bytes()
    other.write_bytes(whole[: len(whole) // 2])
    before = listed(tmp_path)
    found, _ = refused(other, PUBLICATION)

    assert found.startswith("a store that is damaged (")
    assert listed(tmp_path) == before


@pytest.mark.parametrize("content", ["", "not a database at all"])
def test_a_file_that_is_no_store_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    path.write_text(content)

    assert refused(path, PUBLICATION) == ("a file that is no SQLite database", STORE)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("publications.toml", "format = ", "damaged: TOMLDecodeError: "),
        ("publications.toml", "format = 1\n[publications]\n", "damaged: KeyError: "),
        ("publications.toml", "format = 2\n", "format 2"),
        (f"cpu/{KEPT}.json", "{", "damaged: JSONDecodeError: "),
        (f"cpu/{KEPT}.csv", "workaround,precision\n,bf16\n", "damaged: TypeError: "),
    ],
)
def test_a_published_set_that_is_damaged_is_refused(
    name: str, text: str, expected: str, tmp_path: Path
) -> None:
    folder = tmp_path / "published"
    shutil.copytree(Places().published, folder)
    (folder / name).write_text(text)
    found, allowed = refused(folder, PUBLICATION)

    assert found.startswith(expected)
    written = "what `nox -s publish` writes"
    assert allowed == ("format 1 or older" if name.endswith("toml") and "2" in text else written)


def test_a_published_set_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    shutil.copytree(Places().published, folder)
    (folder / f"cpu/{KEPT}.json").unlink()
    found, _ = refused(folder, PUBLICATION)

    assert found == f"unreadable: {KEPT}.json: No such file or directory"


def test_evidence_is_compared_with_evidence_alone(tmp_path: Path) -> None:
    checkout = tmp_path / "transformers"
    (checkout / "src" / "transformers").mkdir(parents=True)
    other = stored(tmp_path / "other.sqlite", seen())

    assert refused(other, checkout) == ("a folder without publications.toml", ALLOWED)
    assert refused(checkout, other) == ("a folder without publications.toml", ALLOWED)
    assert refused("5.23.0", other) == ("an environment beside evidence", ALLOWED)
    assert refused("main", PUBLICATION) == ("an environment beside evidence", ALLOWED)
    assert refused(other, tmp_path / "missing.sqlite") == ("no such file", ALLOWED)
    assert refused("1999-12-31", PUBLICATION) == (
        "no such file, and no such publication",
        ALLOWED,
    )


def test_the_checkout_of_this_project_is_told_where_its_evidence_lies() -> None:
    root = Places().root
    with pytest.raises(RunnerError) as caught:
        compared(root, PUBLICATION)

    assert caught.value.faults[0].remedy == f"Name {root / 'reports' / 'published'}."


def test_nothing_can_be_run_again_and_nothing_selected_is_said(tmp_path: Path) -> None:
    other = stored(tmp_path / "other.sqlite", seen())
    with pytest.raises(RunnerError) as caught:
        compared(other, other, precision=["fp32"])

    assert caught.value.code is ExitCode.NOTHING_SELECTED
    assert refused(other, other, rerun=True)[0] == "evidence on both sides"
