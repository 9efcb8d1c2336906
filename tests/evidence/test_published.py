"""The published set: what is written is what is read, and it reads well in a diff."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import cell, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.evidence.published import (
    Publication,
    PublishedSet,
    read,
    read_publications,
    write,
)
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.observation import Failed, Observation, Provenance

ORDER = ("4.49.0", "4.50.0", "4.50.1", "4.50.3", "4.51.0", "main")
UNBUILT = "main"
CPU, CUDA = (
    Publication(
        name=name,
        date="2026-11-21",
        hardware=hardware,
        torch_build=build,
        python="3.11.9",
        main="unbuildable",
    )
    for name, hardware, build in (
        ("2026-11-21", "x86_64 avx2", "2.13.0+cpu"),
        ("2026-11-21-b", 'a "GPU" \\ \U0001f600', "2.13.0+cu130"),
    )
)
BY_DEVICE = {Device.CPU: CPU, Device.CUDA: CUDA}
FAILURES = (
    failed(),
    failed("KeyError", "'HybridCache'\n=, \"; <b>\r\n\U0001f600"),
    dataclasses.replace(failed("TypeError", ""), traceback='  File "x.py", line 1\n    f()'),
)


def _ran(release: str, device: Device) -> Provenance:
    """Return the one provenance that all cells of an environment and publication share."""
    told = BY_DEVICE[device]
    common = dataclasses.replace(
        provenance(), run=told.name, hardware=told.hardware, torch_build=told.torch_build
    )
    if release == UNBUILT:
        return dataclasses.replace(
            common, environment_digest="", packages={}, torch_build="", python=""
        )
    packages = {"transformers": release, "accelerate": "1.5.2", "peft": "0.15.0"}
    digest = f"{release} {device}"
    return dataclasses.replace(common, environment_digest=digest, packages=packages)


def _published(at: Cell, outcome: Outcome, how: Failed, changes: dict[str, object]) -> Observation:
    unbuilt = at.environment == UNBUILT
    row = dataclasses.replace(
        seen(outcome, at, ran=_ran(at.environment, at.device)),
        source=BY_DEVICE[at.device].name,
        failed=how if outcome.is_failure else None,
        seconds=None,
        **changes,  # type: ignore[arg-type]
    )
    if unbuilt:
        return dataclasses.replace(
            row, outcome=Outcome.UNBUILDABLE, failed=None, reason='no, "it"\nis not there'
        )
    return row


cells = st.builds(
    Cell,
    st.sampled_from(["toy_breaks", "toy_melts"]),
    st.sampled_from(["", "eager", "use-cache-off"]),
    st.sampled_from(ORDER),
    st.sampled_from(Precision),
    st.sampled_from(Device),
)
numbers = st.floats(allow_nan=False).map(lambda value: float(f"{value:.4g}"))
changes = st.fixed_dictionaries(
    {
        "exercised": st.sampled_from(Exercised),
        "unstable": st.booleans(),
        "computed": st.dictionaries(
            st.sampled_from(["float32", "bfloat16@cuda", "float16"]), st.integers(1, 10**9)
        ),
        "measured": st.dictionaries(
            st.text(st.characters(codec="utf-8")) | st.just("share of inf, %"), numbers, max_size=3
        ),
    }
)
OUTCOMES = st.sampled_from(sorted(set(Outcome) - {Outcome.UNBUILDABLE}))
rows = st.builds(_published, cells, OUTCOMES, st.sampled_from(FAILURES), changes)
evidence = st.lists(rows, unique_by=lambda row: row.cell, max_size=12)


def _write(folder: Path, found: list[Observation]) -> dict[str, str]:
    files = write(folder, found, [CUDA, CPU], ORDER)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return {str(path.relative_to(folder)): text for path, text in files.items()}


@given(found=evidence)
def test_what_is_written_is_what_is_read(
    found: list[Observation], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("published")
    _write(folder, found)

    assert {row.cell: row for row in found} == {row.cell: row for row in read(folder)}


@given(found=evidence, wanted=st.sets(cells))
def test_of_what_is_wanted_nothing_is_missing_and_nothing_else_is_read(
    found: list[Observation], wanted: set[Cell], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("published")
    _write(folder, found)
    chosen = {row.cell for row in found} & wanted

    def keep(case: str, workaround: str, precision: Precision, device: Device) -> set[str] | None:
        mine = {cell for cell in wanted if cell[:2] == (case, workaround)}
        return {cell.environment for cell in mine if cell[3:] == (precision, device)}

    read_set = PublishedSet(folder)
    assert [row for cell in wanted for row in read_set.of(cell)] == [
        row for cell in wanted for row in read(folder) if row.cell == cell
    ]
    with contextlib.closing(Store(folder / "store.sqlite", print)) as store:
        store.put(*found)
        assert {row.cell for row in store.rows(keep=keep)} == chosen
        assert {row.cell for row in store.rows({"toy_melts"}, keep)} == {
            cell for cell in chosen if cell.case == "toy_melts"
        }


@given(found=evidence, data=st.data())
def test_the_order_of_the_evidence_changes_no_byte(
    found: list[Observation], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    shuffled = data.draw(st.permutations(found))

    assert write(folder, found, [CPU, CUDA], ORDER) == write(folder, shuffled, [CUDA, CPU], ORDER)


def test_a_diff_reads_well(tmp_path: Path) -> None:
    def row(release: str, outcome: Outcome, precision: Precision = Precision.BF16) -> Observation:
        facts: dict[str, object] = {"computed": {"bfloat16": 12}, "measured": {"loss": 0.25}}
        return _published(cell(release, precision), outcome, FAILURES[0], facts)

    found = [
        row("4.50.3", Outcome.PASSES),
        row("4.50.1", Outcome.FAILS),
        row("4.50.0", Outcome.FAILS),
        row("4.49.0", Outcome.FAILS),
        row("4.51.0", Outcome.PASSES),
        row("4.49.0", Outcome.PASSES, Precision.FP32),
    ]
    expected = (
        "workaround,precision,releases,outcome,exercised,flags,failure,computed,measured,publication\n"
        ",fp32,4.49.0,passes,yes,,,bfloat16=12,loss=0.25,2026-11-21\n"
        ",bf16,4.49.0 4.50.0 4.50.1,fails,yes,,9132bd5f,bfloat16=12,loss=0.25,2026-11-21\n"
        ",bf16,4.50.3 4.51.0,passes,yes,,,bfloat16=12,loss=0.25,2026-11-21\n"
    )

    assert expected == _write(tmp_path, found)["cpu/toy_breaks.csv"]


@pytest.mark.parametrize("turn", [1, -1], ids=["unbuilt first", "unbuilt last"])
def test_a_case_is_published_as_what_was_run_not_as_what_could_not_be_built(
    tmp_path: Path, turn: int
) -> None:
    ran = _published(cell(), Outcome.PASSES, FAILURES[0], {})
    unbuilt = _published(cell(UNBUILT), Outcome.UNBUILDABLE, FAILURES[0], {})
    older = dataclasses.replace(unbuilt.provenance, case_digest="0" * 16)
    _write(tmp_path, [dataclasses.replace(unbuilt, provenance=older), ran][::turn])

    assert [row.provenance.case_digest for row in read(tmp_path) if row.outcome.was_run] == [
        ran.provenance.case_digest
    ]


def test_the_same_words_in_two_places_are_two_failures(tmp_path: Path) -> None:
    def row(release: str, line: int, function: str) -> Observation:
        trace = f'  File "site-packages/peft/x.py", line {line}, in {function}\n    f()'
        how = dataclasses.replace(failed(), traceback=trace)
        return _published(cell(release), Outcome.FAILS, how, {})

    found = [row("4.49.0", 1, "A.forward"), row("4.50.0", 2, "B.forward")]
    found.append(row("4.50.1", 3, "B.forward"))
    _write(tmp_path, found)

    assert [row.failed.place if row.failed else "" for row in read(tmp_path)] == [
        "peft.x:A.forward",
        "peft.x:B.forward",
        "peft.x:B.forward",
    ]


def test_no_time_and_no_place_is_published(tmp_path: Path) -> None:
    row = _published(cell(), Outcome.FAILS, FAILURES[0], {})
    local = dataclasses.replace(
        row,
        seconds=1.25,
        output="/home/me/out",
        provenance=dataclasses.replace(
            row.provenance, imported={"torch": "/home/me/torch.py"}, run="20261121T010203"
        ),
    )

    assert _write(tmp_path, [row]) == _write(tmp_path, [local])


def test_publications_are_read_back(tmp_path: Path) -> None:
    _write(tmp_path, [])

    assert {CPU.name: CPU, CUDA.name: CUDA} == read_publications(tmp_path)


def test_where_nothing_is_published_nothing_is_read(tmp_path: Path) -> None:
    assert (list(read(tmp_path)), read_publications(tmp_path)) == ([], {})
