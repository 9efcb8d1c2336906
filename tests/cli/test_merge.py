"""Evidence of others brought in: in any order and how often, the same is there, and all of it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import cell, failed, provenance, seen
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.merge import MergeOptions, bring
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import answers, published
from repromatrix.runner.evidence.database import VERSION
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import LOCAL, MERGED
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from repromatrix.runner.model.observation import Observation

CASE = "paligemma2_trainer_eval"


def row(
    outcome: Outcome = Outcome.PASSES,
    hardware: str = "there",
    run: str = "20261121T000000-000001",
    name: str = "toy_breaks",
    **changed: object,
) -> Observation:
    ran = dataclasses.replace(provenance(), hardware=hardware, run=run)
    return dataclasses.replace(
        seen(outcome, cell(name=name), ran=ran),
        **changed,  # type: ignore[arg-type]
    )


ROWS = st.builds(
    row,
    outcome=st.sampled_from([Outcome.PASSES, Outcome.FAILS, Outcome.OUT_OF_MEMORY]),
    hardware=st.sampled_from(["here", "there"]),
    run=st.sampled_from(["1", "2"]),
    name=st.sampled_from(["toy_a", "toy_b"]),
    unstable=st.booleans(),
    seconds=st.sampled_from([None, 0.5, 1.5]),
)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Store]:
    store = Store(path, print)
    try:
        yield store
    finally:
        store.close()


def held(parts: Iterable[Sequence[Observation]], own: Sequence[Observation]) -> list[object]:
    """Return all that is in a store into which parts were merged one after another."""
    with tempfile.TemporaryDirectory() as name, opened(Path(name) / "evidence.sqlite") as store:
        store.put(*own)
        for part in parts:
            store.take(part)
        return [list(store.statements()), list(store.rows())]


@settings(max_examples=25)
@given(st.lists(ROWS, max_size=6), st.lists(ROWS, max_size=2), st.data())
def test_any_order_any_repetition_and_any_split_of_rows_give_the_same_store(
    rows: list[Observation], own: list[Observation], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    order = data.draw(st.permutations([*rows, *again]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    ends = [0, *cuts, len(order)]
    parts = [order[begin:end] for begin, end in itertools.pairwise(ends)]

    expected, actual = held([rows], own), held(parts, own)

    assert expected == actual


def test_what_is_merged_keeps_what_it_ran_on_and_is_not_called_our_own(tmp_path: Path) -> None:
    rows = [row(hardware=one, name=f"toy_{one}") for one in ("a", "b")]
    with opened(tmp_path / "evidence.sqlite") as store:
        store.put(row(hardware="ours", name="toy_c"))
        store.take(rows)
        found = list(store.rows())

    assert {(one.provenance.hardware, one.source) for one in found} == {
        ("ours", LOCAL),
        ("a", MERGED),
        ("b", MERGED),
    }
    assert [one for one in found if one.source == MERGED] == [
        dataclasses.replace(one, source=MERGED) for one in rows
    ]


def test_devices_do_not_overwrite_one_another(tmp_path: Path) -> None:
    rows = [
        dataclasses.replace(row(), cell=cell(device=device), provenance=row().provenance)
        for device in Device
    ]
    with opened(tmp_path / "evidence.sqlite") as store:
        for one in rows:
            store.take([one])
        found = list(store.rows())

    assert {one.cell.device for one in found} == {*Device}


def test_a_part_that_breaks_off_leaves_nothing_of_it(tmp_path: Path) -> None:
    def breaking() -> Iterator[Observation]:
        yield row(name="toy_b")
        raise OSError

    with opened(tmp_path / "evidence.sqlite") as store:
        store.take([row(name="toy_a")])
        with pytest.raises(OSError, match=r"^$"):
            store.take(breaking())
        found = [one.cell.case for one in store.rows()]

    assert found == ["toy_a"]


def test_our_own_row_that_comes_back_to_us_is_not_held_against_a_later_one(tmp_path: Path) -> None:
    ours = row(run="1")
    with opened(tmp_path / "evidence.sqlite") as store:
        store.put(ours)
        taken = store.take([ours])
        store.put(row(Outcome.FAILS, run="2"))
        (found,) = store.rows()

    assert (taken.rows, taken.new, taken.newer) == (1, 0, 0)
    assert (found.outcome, found.sides) == (Outcome.FAILS, ())


@pytest.mark.parametrize(("repeats", "settled"), [(1, False), (3, True)])
def test_what_is_measured_here_and_confirmed_settles_a_dispute(
    tmp_path: Path, repeats: int, *, settled: bool
) -> None:
    others = [row(), row(Outcome.FAILS)]
    mine = row(hardware="here", run="20261122T000000-000001", repeats=repeats)
    with opened(tmp_path / "evidence.sqlite") as store:
        store.take(others)
        store.put(mine)
        store.take(others)  # what was settled stays so, however often it is brought again
        (found,) = store.rows()

    assert (found.unstable, bool(found.sides)) == (not settled, not settled)
    if settled:
        assert found == mine


def test_what_others_measure_later_disputes_again_what_was_settled(tmp_path: Path) -> None:
    mine = row(hardware="here", run="20261122T000000-000001", repeats=3)
    with opened(tmp_path / "evidence.sqlite") as store:
        store.take([row(Outcome.FAILS)])
        store.put(mine)
        store.take([row(Outcome.FAILS, run="20261123T000000-000001")])
        (found,) = store.rows()

    assert found.unstable
    assert [side.outcome for side in found.sides] == [Outcome.FAILS, Outcome.PASSES]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Paths:
    """Return a checkout with one real case, of which nothing is published."""
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "mine" / "evidence.sqlite"))
    here = small_checkout.checkout(tmp_path / "checkout")
    shutil.copy(Paths().cases / f"{CASE}.py", here.cases)
    return here


def real(outcome: Outcome, hardware: str = "there", release: str = "4.50.0") -> Observation:
    """Return a current row of a case of this checkout."""
    loaded = project.load(Paths(), [Paths().cases / f"{CASE}.py"])
    toy, held = loaded.cases[CASE], loaded.environments[release]
    ran = dataclasses.replace(provenance(toy, held), hardware=hardware, run=f"1 {hardware}")
    place = cell(release, Precision.FP32, name=CASE)
    how = failed("KeyError", "not described") if outcome is Outcome.FAILS else None
    return seen(outcome, place, how=how, ran=ran)


def stored(path: Path, *rows: Observation, shards: Sequence[tuple[str, str]] = ()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path) as store:
        store.put(*rows)
        for shard, split in shards:
            store.end_shard(shard, split, "run")
    return path


def merging(
    places: Paths, *files: Path, whole: bool = False, dry_run: bool = False
) -> tuple[ExitCode, list[str]]:
    """Merge, and return the exit code with what was said, paths by their name."""
    console = Console(record=True, width=1000, stderr=True, markup=False)
    code = bring(places, MergeOptions(files=[*files], whole=whole, dry_run=dry_run), console)
    lines = console.export_text().splitlines()
    for path in files:
        lines = [line.replace(str(path), path.name) for line in lines]
    return code, lines


def rows_of(places: Paths) -> list[Observation]:
    with opened(places.store) as store:
        return list(store.rows())


def test_merging_again_brings_nothing(places: Paths, tmp_path: Path) -> None:
    one = stored(tmp_path / "one.sqlite", real(Outcome.PASSES), row())
    merging(places, one)
    code, lines = merging(places, one)

    assert (code, lines[0]) == (ExitCode.AS_EXPECTED, "  one.sqlite: 2 rows: 2 already here")
    assert len(rows_of(places)) == 2


def test_what_machines_say_of_an_older_state_of_a_case_is_no_dispute_of_today(
    places: Paths, tmp_path: Path
) -> None:
    old = [
        dataclasses.replace(
            one, provenance=dataclasses.replace(one.provenance, environment_digest="older pins")
        )
        for one in (real(Outcome.PASSES, "avx2"), real(Outcome.FAILS, "asimd"))
    ]
    one, other = stored(tmp_path / "one.sqlite", old[0]), stored(tmp_path / "other.sqlite", old[1])
    now = stored(tmp_path / "now.sqlite", real(Outcome.PASSES, "avx2"))
    files = one.name, other.name, now.name

    assert merging(places, one, other, now) == (
        ExitCode.AS_EXPECTED,
        [f"  {name}: 1 row: 1 new" for name in files],
    )


def test_a_rehearsal_says_the_same_and_writes_nothing(places: Paths, tmp_path: Path) -> None:
    files = [
        stored(tmp_path / f"{name}.sqlite", real(outcome, name))
        for name, outcome in (("one", Outcome.PASSES), ("other", Outcome.FAILS))
    ]
    rehearsed = merging(places, *files, dry_run=True)
    was_made = places.store.exists()
    done = merging(places, *files)

    assert rehearsed == (done[0], [*done[1], "Nothing was written."])
    assert not was_made


def test_a_published_set_is_merged_with_what_it_ran_on(places: Paths, tmp_path: Path) -> None:
    one = dataclasses.replace(real(Outcome.PASSES), source="2026-11-21")
    facts = Publication(
        name="2026-11-21",
        date="2026-11-21",
        hardware="avx2",
        torch_build="2.13.0+cpu",
        python="3.11.9",
        main="unbuildable",
    )
    folder = tmp_path / "published"
    for path, text in published.write(folder, [one], [facts], ["4.50.0"]).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    merging(places, folder)
    (found,) = rows_of(places)

    assert (found.source, found.provenance.hardware, found.provenance.run) == (
        *(MERGED, "avx2", "2026-11-21"),
    )
    assert found.cell == one.cell


def _newer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")


def test_a_file_that_cannot_be_merged_is_named_and_the_others_are_merged(
    places: Paths, tmp_path: Path
) -> None:
    good = [stored(tmp_path / f"{name}.sqlite", row(name=f"toy_{name}")) for name in "ac"]
    bad = stored(tmp_path / "b.sqlite", row(name="toy_b"))
    _newer(bad)
    with pytest.raises(RunnerError) as caught:
        merging(places, good[0], bad, good[1])
    (fault,) = caught.value.faults

    assert fault.where == str(bad)
    assert {one.cell.case for one in rows_of(places)} == {"toy_a", "toy_c"}


SHARDS = [("1/2", "a"), ("2/2", "a")]


def test_a_store_stands_for_the_last_split_that_was_begun_in_it(tmp_path: Path) -> None:
    with opened(tmp_path / "evidence.sqlite") as store:
        for shard, split in [*SHARDS, ("1/2", "b")]:
            store.begin_shard(split)
            store.end_shard(shard, split, "run")
        ended = store.shards()
        store.begin_shard("c")
        begun = store.shards()

    assert ended == {("1/2", "b")}
    assert begun == frozenset()


@pytest.mark.parametrize("whole", [True, False])
def test_whoever_writes_waits_for_no_file_that_is_read(
    places: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    files = [
        stored(tmp_path / f"{number}.sqlite", real(Outcome.PASSES, release=release), shards=[one])
        for number, (one, release) in enumerate(zip(SHARDS, ("4.50.0", "4.51.0"), strict=True))
    ]
    read: list[str] = []

    def watched(path: Path, rows: Iterable[Observation]) -> Iterator[Observation]:
        for found in rows:
            with contextlib.closing(sqlite3.connect(places.store, timeout=0)) as other:
                other.execute("BEGIN IMMEDIATE")
            read.append(path.name)
            yield found

    monkeypatch.setattr(answers, "checked", watched)
    merging(places, *files, whole=whole)

    assert read == ["0.sqlite", "1.sqlite"]
    assert len(rows_of(places)) == 2


def test_a_whole_with_a_file_that_cannot_be_read_is_not_merged(
    places: Paths, tmp_path: Path
) -> None:
    files = [
        stored(tmp_path / f"{number}.sqlite", row(name=f"toy_{number}"), shards=[one])
        for number, one in enumerate(SHARDS)
    ]
    _newer(files[1])
    with pytest.raises(RunnerError, match="Nothing was merged"):
        merging(places, *files, whole=True)

    assert rows_of(places) == []


def test_the_main_of_two_machines_keeps_what_each_of_them_had(tmp_path: Path) -> None:
    loaded = project.load(Paths(), code=False)
    rows = [
        dataclasses.replace(
            row(run=run),
            cell=cell(MAIN),
            provenance=dataclasses.replace(
                provenance(), environment_digest=digest, packages={"transformers": version}, run=run
            ),
        )
        for run, digest, version in (("2", "late", "5.25.0.dev0"), ("1", "early", "5.24.0.dev0"))
    ]
    with opened(tmp_path / "evidence.sqlite") as store:
        store.take(rows)
        found = list(store.rows())

    assert [one.provenance.packages["transformers"] for one in found] == [
        *("5.24.0.dev0", "5.25.0.dev0"),
    ]
    assert [one.sides for one in found] == [(), ()]
    assert project.informed(loaded, found).environments[MAIN].digest == "late"


def test_no_terminal_is_obeyed_where_evidence_of_others_is_told(
    places: Paths, tmp_path: Path
) -> None:
    bad = dataclasses.replace(
        real(Outcome.FAILS, "\x1b[2Jthere"), failed=failed("KeyError", "\x1b]0;mine\x07[red]")
    )
    files = [
        stored(tmp_path / "bad.sqlite", bad),
        stored(tmp_path / "good.sqlite", real(Outcome.PASSES, "here")),
    ]
    code, lines = merging(places, *files)

    assert code is ExitCode.UNEXPECTED
    assert all(line.isprintable() for line in lines)
    assert lines[2:] == [
        "1 cell disputed between machines (unstable until `nox -s matrix` has run here):",
        (
            f"  disputed: {CASE} fp32 on 4.50.0: fails: KeyError: �]0;mine�[red] (�[2Jthere, torch"
            " 2.13.0+cpu); passes (here, torch 2.13.0+cpu)"
        ),
    ]
