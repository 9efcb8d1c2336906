"""This machine's evidence: what is stored comes back, whoever else writes and whatever happens."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st
from programs import PATIENCE, started

from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import database
from repromatrix.runner.evidence.database import VERSION
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import not_built
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import LOCAL, Failed, MemoryUse, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITER = """
import sys
from pathlib import Path
from factories import case, cell, seen
from repromatrix.runner.evidence.store import Store

store = Store(Path(sys.argv[1]), print)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    store.put(seen(at=cell(name=f"toy_{number}")))
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "evidence.sqlite"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Store]:
    """Open a store that is sound: nothing may be said about it."""
    said: list[str] = []
    store = Store(path, said.append)
    try:
        yield store
    finally:
        store.close()
    assert said == []


def stored(path: Path) -> list[Observation]:
    with opened(path) as store:
        return list(store.rows())


def writing(
    path: Path, begin: int, end: int
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """Start a process that writes rows once it is told to, and says each that it has written."""
    return started(
        [sys.executable, "-c", WRITER, str(path), str(begin), str(end)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")]),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_rows_survive_reopening_in_the_order_in_which_they_were_written(path: Path) -> None:
    expected = [seen(at=cell(name=f"toy_{number}")) for number in (2, 0, 1)]
    with opened(path) as store:
        store.put(expected[0])
        store.put(*expected[1:])

    actual = stored(path)

    assert expected == actual


def test_a_cell_that_is_measured_again_is_replaced_and_becomes_the_latest(path: Path) -> None:
    first, other = seen(at=cell(name="toy_a")), seen(at=cell(name="toy_b"))
    again = dataclasses.replace(first, outcome=Outcome.FAILS, failed=failed(), repeats=3)
    with opened(path) as store:
        store.put(first)
        store.put(other)
        store.put(again)

    expected = [other, again]
    actual = stored(path)

    assert expected == actual


@pytest.mark.parametrize(
    "changed", [{"case_digest": "1"}, {"environment_digest": "2"}, {"protocol": 99}]
)
def test_what_was_measured_on_something_else_is_kept_beside(
    path: Path, changed: dict[str, object]
) -> None:
    row = seen()
    ran = dataclasses.replace(row.provenance, **changed)  # type: ignore[arg-type]
    expected = [row, dataclasses.replace(row, provenance=ran)]
    with opened(path) as store:
        store.put(*expected)

    actual = stored(path)

    assert expected == actual


def test_that_a_cell_could_not_be_built_is_forgotten_once_it_is_measured(path: Path) -> None:
    toy = case()
    places = [cell("4.50.0"), cell("4.50.0", workaround="around"), cell("4.51.0")]
    unbuilt = not_built(places, {toy.name: toy}, "no network", "run")
    measured = seen(at=places[0])
    with opened(path) as store:
        store.put(*unbuilt)
        store.put(measured)

    expected = [*unbuilt[1:], measured]
    actual = stored(path)

    assert expected == actual


def test_that_a_measured_cell_can_no_longer_be_built_does_not_touch_its_row(path: Path) -> None:
    toy = case()
    measured = seen(at=cell())
    unbuilt = not_built([cell()], {toy.name: toy}, "no network", "run")
    with opened(path) as store:
        store.put(measured)
        store.put(*unbuilt)
        store.put(*unbuilt)

    expected = [measured, *unbuilt]
    actual = stored(path)

    assert expected == actual


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789-._", min_size=1, max_size=12)
NUMBERS = st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=3)
PROVENANCES = st.builds(
    Provenance,
    case_digest=WORD,
    environment_digest=WORD,
    packages=st.dictionaries(WORD, WORD, max_size=3),
    python=WORD,
    torch_build=TEXT,
    hardware=TEXT,
    protocol=st.integers(0, 9),
    run=WORD,
    imported=st.dictionaries(WORD, TEXT, max_size=2),
)
OBSERVATIONS = st.builds(
    Observation,
    cell=st.builds(
        Cell, WORD, WORD | st.just(""), WORD, st.sampled_from(Precision), st.sampled_from(Device)
    ),
    outcome=st.sampled_from(Outcome),
    provenance=PROVENANCES,
    source=st.just(LOCAL),
    failed=st.none()
    | st.builds(Failed, error_class=TEXT, message=TEXT, signature=TEXT, traceback=TEXT),
    reason=TEXT,
    exercised=st.sampled_from(Exercised),
    computed=st.dictionaries(WORD, st.integers(0), max_size=3),
    measured=NUMBERS,
    unstable=st.booleans(),
    repeats=st.integers(1, 3),
    seconds=st.none() | st.floats(0, 1e6),
    output=TEXT,
    memory=st.none()
    | st.builds(MemoryUse, peak=st.integers(0, 1 << 40), limit=st.integers(0, 4096)),
)


@given(OBSERVATIONS)
def test_every_observation_comes_back_as_it_was(row: Observation) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "evidence.sqlite"
        with opened(path) as store:
            store.put(row)
        actual = stored(path)

    assert [row] == actual


def test_numbers_that_are_none_come_back(path: Path) -> None:
    measured = {"inf": float("inf"), "nan": float("nan")}
    with opened(path) as store:
        store.put(dataclasses.replace(seen(), measured=measured))
    (row,) = stored(path)

    expected = repr(measured)
    actual = repr(row.measured)

    assert expected == actual


def test_what_many_cells_ran_on_is_stored_once(path: Path) -> None:
    with opened(path) as store:
        store.put(*(seen(at=cell(name=f"toy_{number}")) for number in range(5)))
    with contextlib.closing(sqlite3.connect(path)) as database:
        actual = database.execute("SELECT count(*) FROM provenances").fetchone()[0]

    assert actual == 1


def test_two_processes_that_write_at_once_lose_and_double_nothing(path: Path) -> None:
    with writing(path, 0, 60) as one, writing(path, 40, 100) as other:
        writers = [one, other]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate(timeout=PATIENCE)

    expected = sorted(f"toy_{number}" for number in range(100))
    actual = sorted(row.cell.case for row in stored(path))

    assert [writer.returncode for writer in writers] == [0, 0]
    assert expected == actual


def test_a_writer_that_is_killed_leaves_what_it_had_written(path: Path) -> None:
    with writing(path, 0, 1_000_000) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        said = [writer.stdout.readline() for _ in range(51)]
        writer.kill()
        writer.communicate(timeout=PATIENCE)

    rows = stored(path)
    expected = [f"toy_{number}" for number in range(len(rows))]
    actual = [row.cell.case for row in rows]

    assert writer.returncode == -signal.SIGKILL
    assert said[-1] == "49\n"
    assert len(rows) >= 50
    assert expected == actual


def test_a_row_that_another_run_adds_while_we_read_lacks_nothing(path: Path) -> None:
    with opened(path) as reader, opened(path) as writer:
        reader.put(seen())

        def write(_statement: str) -> None:
            number = next(numbers)
            ran = dataclasses.replace(provenance(on=environment()), torch_build=f"build {number}")
            writer.put(seen(at=cell(name=f"toy_{number}"), ran=ran))

        numbers = iter(range(100))
        reader._db.set_trace_callback(write)
        rows = list(reader.rows())
        reader._db.set_trace_callback(None)

        assert rows[0] == seen()
        assert len(list(reader.rows())) > len(rows)


@pytest.mark.parametrize(("version", "age"), [(VERSION + 1, "a newer"), (2, "an earlier")])
def test_a_store_of_another_version_is_kept_aside_and_said_so(
    path: Path, version: int, age: str
) -> None:
    with opened(path) as store:
        store.put(seen())
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()
    said: list[str] = []
    store = Store(path, said.append)
    rows = list(store.rows())
    store.close()

    expected = [
        (
            f"evidence.sqlite was written by {age} version (format {version}, this one reads"
            f" {VERSION}); it is kept as evidence.sqlite.kept-1 and a new store is begun."
        )
    ]
    actual = said

    assert expected == actual
    assert (rows, path.with_name("evidence.sqlite.kept-1").read_bytes()) == ([], before)


def test_a_file_that_is_no_store_is_kept_aside_each_time_under_a_name_of_its_own(
    path: Path,
) -> None:
    path.parent.mkdir()
    said: list[str] = []
    for text in ("not a database at all, " * 99, "another one, " * 99):
        path.write_text(text)
        store = Store(path, said.append)
        store.put(seen())
        store.close()

    kept = "it is kept as evidence.sqlite.kept-{} and a new store is begun."
    expected = [
        f"evidence.sqlite is damaged (file is not a database); {kept.format(number)}"
        for number in (1, 2)
    ]
    actual = said

    assert expected == actual
    assert stored(path) == [seen()]
    assert path.with_name("evidence.sqlite.kept-1").read_text() == "not a database at all, " * 99
    assert path.with_name("evidence.sqlite.kept-2").read_text() == "another one, " * 99


def test_a_store_with_a_hole_is_kept_aside_whole(path: Path) -> None:
    with opened(path) as store:
        store.put(*(seen(at=cell(name=f"toy_{number}")) for number in range(200)))
    content = bytearray(path.read_bytes())
    content[4096 * 4 : 4096 * 6] = b"\xff" * 4096 * 2
    path.write_bytes(content)
    said: list[str] = []
    Store(path, said.append).close()
    (line,) = said

    assert line.startswith("evidence.sqlite is damaged (")
    assert line.endswith("; it is kept as evidence.sqlite.kept-1 and a new store is begun.")
    assert path.with_name("evidence.sqlite.kept-1").read_bytes() == content


@pytest.mark.parametrize("version", [0, 80])
def test_a_database_of_another_program_is_refused_and_stays_as_it_is(
    path: Path, version: int
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE cells (id)")
        other.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()

    with pytest.raises(RunnerError, match="is not a repromatrix store") as caught:
        Store(path, print)
    assert caught.value.code is ExitCode.BAD_INPUT
    assert (path.read_bytes(), [*path.parent.iterdir()]) == (before, [path])


def test_a_store_that_somebody_holds_is_not_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT", 0.05)
    with opened(path) as store:
        store.put(seen())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunnerError, match=r"evidence.sqlite: another program has"):
            Store(path, print)

    assert stored(path) == [seen()]


NO_TEXT = "something that is no text where a text belongs"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("cells SET case_name=x'ff'", "case_name holds bytes"),
        ("cells SET message=x'ff'", "message holds bytes"),
        ("cells SET traceback=NULL", "half of an error"),
        ("cells SET repeats='often'", "repeats holds str"),
        ("cells SET seconds='long'", "seconds holds str"),
        ("cells SET peak_mib=7", "memory without its limit"),
        ('cells SET computed=\'{"a": "b"}\'', "something that is no number where a number belongs"),
        ("provenances SET python=x'ff'", NO_TEXT),
        ("provenances SET packages='{\"a\": 1}'", NO_TEXT),
    ],
)
def test_a_row_that_holds_what_no_row_of_ours_does_is_told_by_whoever_reads_it(
    path: Path, change: str, expected: str
) -> None:
    with opened(path) as store:
        store.put(seen(Outcome.FAILS))
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {change}")

    told = f"evidence.sqlite: the file is damaged (TypeError: {expected}). Move it away;"
    for read in (Store.rows, Store.statements):
        with opened(path) as store, pytest.raises(RunnerError) as caught:
            list(read(store))
        assert str(caught.value).startswith(told)


def test_the_next_confirmation_goes_on_with_the_seed_of_the_last(path: Path) -> None:
    with contextlib.closing(Store(path, pytest.fail)) as store:
        assert store.seed() is None
        store.begin_confirmation(7, "first")
        store.begin_confirmation(8, "second")
        store.begin_confirmation(7, "third")
    with contextlib.closing(Store(path, pytest.fail)) as store:
        assert store.seed() == 7
        assert store.confirmations(7) == {"first", "third"}
