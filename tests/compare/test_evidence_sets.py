"""Two sets of evidence, cell by cell: what became of each, and how it is told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from factories import BREAKS, case, cell, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.compare.diff import (
    CellChange,
    CellDifference,
    DiffGround,
    compare,
    grounds,
    in_table_order,
)
from repromatrix.runner.compare.render import DiffReport, document
from repromatrix.runner.document import write
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kept import Expected

    from repromatrix.runner.compare.diff import Rows
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

TOY = case(BREAKS)
CASES = {TOY.name: TOY}
NAMES = ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.50.3", "4.51.0")
FAR = cell("9.0.0")
STRANGE = cell("4.50.0", name="toy_unheard_of")


def on(row: Observation, **facts: Any) -> Observation:  # noqa: ANN401
    return dataclasses.replace(row, provenance=dataclasses.replace(row.provenance, **facts))


def held(*rows: Observation) -> dict[Cell, Observation]:
    return {row.cell: row for row in rows}


def compared(before: Rows, after: Rows, names: Sequence[str] = NAMES) -> tuple[CellDifference, ...]:
    return in_table_order(compare(before, after, CASES), CASES, names)


PASSES = seen(Outcome.PASSES)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (PASSES, ()),
        (on(PASSES, case_digest="another"), (DiffGround.CASE,)),
        (on(PASSES, environment_digest="another"), (DiffGround.PINS,)),
        (on(PASSES, protocol=2), (DiffGround.PROTOCOL,)),
        (
            on(PASSES, torch_build="2.12.0", hardware="arm64"),
            (DiffGround.TORCH, DiffGround.HARDWARE),
        ),
        (on(seen(Outcome.NOT_APPLICABLE), case_digest="another"), ()),
        (on(seen(Outcome.UNBUILDABLE), environment_digest=""), ()),
        (on(seen(at=cell("4.51.0")), environment_digest="another", torch_build="2.12.0"), ()),
        (None, ()),
    ],
)
def test_what_else_is_not_the_same_is_named_where_both_sides_ran_in_one_environment(
    after: Observation | None, expected: tuple[DiffGround, ...]
) -> None:
    assert (grounds(PASSES, after), grounds(after, PASSES)) == (expected, expected)


def test_cells_meet_under_their_whole_name_in_the_order_of_the_table() -> None:
    before = held(
        seen(Outcome.PASSES, FAR),
        seen(Outcome.PASSES, cell("4.51.0")),
        seen(Outcome.PASSES, cell("4.50.0")),
        seen(Outcome.NOT_APPLICABLE, cell("4.49.0")),
    )
    after = held(
        seen(Outcome.FAILS, STRANGE),
        on(seen(Outcome.FAILS, cell("4.51.0")), case_digest="another"),
        seen(Outcome.FAILS, cell("4.50.0")),
    )
    expected = (
        CellDifference(
            cell=cell("4.50.0"),
            change=CellChange.BROKE,
            before=before[cell("4.50.0")],
            after=after[cell("4.50.0")],
        ),
        CellDifference(
            cell=cell("4.51.0"),
            change=CellChange.BROKE,
            before=before[cell("4.51.0")],
            after=after[cell("4.51.0")],
            grounds=(DiffGround.CASE,),
        ),
        CellDifference(cell=FAR, change=CellChange.GONE, before=before[FAR], after=None),
        CellDifference(cell=STRANGE, change=CellChange.NEW, before=None, after=after[STRANGE]),
    )
    found = compared(before, after)

    assert found == expected
    assert [one.is_comparable for one in found] == [True, False, True, True]


def test_another_error_of_a_case_that_nobody_here_has_is_a_change() -> None:
    one = seen(Outcome.FAILS, STRANGE)
    other = seen(Outcome.FAILS, STRANGE, how=failed("KeyError", "elsewhere"))
    found = [compared(held(one), held(row))[0].change for row in (one, other)]

    assert found == [CellChange.SAME, CellChange.CHANGED]


ROWS = st.builds(
    lambda at, outcome, facts: on(seen(outcome, at), **facts),
    st.builds(
        cell,
        st.sampled_from([*NAMES, "9.0.0"]),
        st.sampled_from(Precision),
        name=st.sampled_from(["toy_breaks", "toy_unheard_of"]),
        device=st.sampled_from(Device),
    ),
    st.sampled_from(Outcome),
    st.sampled_from([{}, {"case_digest": "another"}, {"hardware": "arm64"}]),
)
SETS = st.lists(ROWS).map(lambda rows: held(*rows))


@given(SETS, SETS)
def test_both_directions_meet_the_same_cells_and_mirror_each_other(
    before: dict[Cell, Observation], after: dict[Cell, Observation]
) -> None:
    mirrored = {
        CellChange.BROKE: CellChange.FIXED,
        CellChange.FIXED: CellChange.BROKE,
        CellChange.NEW: CellChange.GONE,
        CellChange.GONE: CellChange.NEW,
    }
    there = compared(before, after)
    back = compared(after, before)

    assert [(one.cell, mirrored.get(one.change, one.change), one.grounds) for one in there] == [
        (one.cell, one.change, one.grounds) for one in back
    ]
    assert {one.cell for one in there} <= {*before, *after}


@given(SETS)
def test_a_set_does_not_differ_from_itself(rows: dict[Cell, Observation]) -> None:
    assert not any(one.change.differs or one.grounds for one in compared(rows, rows))


# How it is told ---------------------------------------------------------------------------------

HOSTILE = failed("KeyError", "a | b \x1b[31m <img src=x>")


def _rows(outcome: Outcome, names: Sequence[str], **facts: Any) -> list[Observation]:  # noqa: ANN401
    return [seen(outcome, cell(name), **facts) for name in names]


BEFORE = held(
    *_rows(Outcome.PASSES, NAMES),
    seen(Outcome.FAILS, cell("4.51.0", Precision.FP16)),
    seen(Outcome.PASSES, FAR),
    seen(Outcome.UNBUILDABLE, cell("main")),
    seen(Outcome.PASSES, cell("4.49.0", Precision.FP32)),
)
AFTER = held(
    *_rows(Outcome.FAILS, NAMES[:5], ran=dataclasses.replace(provenance(), hardware="arm64")),
    on(seen(Outcome.PASSES, cell("4.51.0", Precision.FP16)), environment_digest="another"),
    seen(Outcome.PASSES, cell("4.51.0")),
    seen(Outcome.FAILS, STRANGE, how=HOSTILE),
    seen(Outcome.UNBUILDABLE, cell("main")),
    seen(Outcome.OUT_OF_MEMORY, cell("4.49.0", Precision.FP32)),
)
WHOLE = DiffReport(
    before="the snapshot 2026-11-21",
    after="the store other.sqlite",
    differences=compared(BEFORE, AFTER, (*NAMES, "main")),
    cases=CASES,
    environments=(*NAMES, "main"),
)


def text(report: DiffReport) -> str:
    return write(document(report), "text")


def test_the_page_names_every_cell_that_differs_and_tells_apart_what_is_another_cell(
    expected: Expected,
) -> None:
    read = {form: write(document(WHOLE), form) for form in ("text", "json")}

    expected("evidence", {f"two sets of evidence, {form}": page for form, page in read.items()})


def test_cells_that_neither_side_ran_are_counted_and_not_listed() -> None:
    cells = [cell("4.50.0", precision) for precision in Precision]
    unstable = held(*(seen(Outcome.FAILS, at, unstable=True) for at in cells))
    unbuilt = held(*(seen(Outcome.UNBUILDABLE, at) for at in cells))
    pages = [
        text(dataclasses.replace(WHOLE, differences=compared(rows, rows))).splitlines()
        for rows in (unstable, unbuilt)
    ]

    assert ["3 unknown" in page[2] for page in pages] == [True, True]
    assert ["    plain fp32, bf16, fp16 on 4.50.0" in page for page in pages] == [True, False]


def test_numbers_that_moved_are_told_where_both_sides_pass() -> None:
    one, other = (dataclasses.replace(PASSES, measured={"error": number}) for number in (1.0, 2.0))
    answer = dataclasses.replace(WHOLE, differences=compared(held(one), held(other)))

    assert "toy_breaks bf16 on 4.50.0: error 1 before, 2 after" in text(answer)
    assert document(answer).data["cells"][0]["moved"] == {"error": [1.0, 2.0]}


def test_two_publications_of_one_set_are_said_to_share_no_cell() -> None:
    answer = dataclasses.replace(WHOLE, of_one_set=True)

    assert "belongs to the snapshot that measured it last" in text(answer)
    assert "belongs to the snapshot that measured it last" not in text(WHOLE)


def test_hostile_names_stay_text_and_are_in_no_command() -> None:
    hostile = cell("4.50.0\n# heading", workaround="```\n\x1b[31m")
    known = cell("4.50.0", workaround="```\n")
    rows = held(*(seen(Outcome.PASSES, at) for at in (hostile, known)))
    answer = dataclasses.replace(WHOLE, differences=compared({}, rows))
    told = (text(answer), write(document(answer), "markdown"))

    assert [answer.again(one.cell) for one in answer.differences] == ["", ""]
    for page in told:
        assert "\x1b" not in page
        assert "# heading" not in [line.strip() for line in page.splitlines()]
    assert "nox -s" not in told[1]
