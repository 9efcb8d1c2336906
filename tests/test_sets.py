"""Two sets of evidence, cell by cell: what became of each, and how it is told."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from factories import BREAKS, case, cell, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from runner.judging.difference import Change
from runner.judging.sets import Ground, Met, grounds, meet
from runner.model.outcomes import Device, Outcome, Precision
from runner.telling.pasted_sets import as_json, markdown
from runner.telling.sets import Compared, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.model.cell import Cell
    from runner.model.observation import Observation

TOY = case(BREAKS)
CASES = {TOY.name: TOY}
NAMES = ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.50.3", "4.51.0")
FAR = cell("9.0.0")
STRANGE = cell("4.50.0", name="toy_unheard_of")


def on(row: Observation, **facts: Any) -> Observation:  # noqa: ANN401
    return dataclasses.replace(row, provenance=dataclasses.replace(row.provenance, **facts))


def held(*rows: Observation) -> dict[Cell, Observation]:
    return {row.cell: row for row in rows}


PASSES = seen(Outcome.PASSES)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (PASSES, ()),
        (on(PASSES, case_digest="another"), (Ground.CASE,)),
        (on(PASSES, environment_digest="another"), (Ground.PINS,)),
        (on(PASSES, protocol=2), (Ground.PROTOCOL,)),
        (on(PASSES, torch_build="2.12.0", hardware="arm64"), (Ground.TORCH, Ground.HARDWARE)),
        (on(seen(Outcome.NOT_APPLICABLE), case_digest="another"), ()),
        (on(seen(Outcome.UNBUILDABLE), environment_digest=""), ()),
        (None, ()),
    ],
)
def test_what_else_is_not_the_same_is_named_where_both_sides_ran(
    after: Observation | None, expected: tuple[Ground, ...]
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
        Met(
            cell=cell("4.50.0"),
            change=Change.BROKE,
            before=before[cell("4.50.0")],
            after=after[cell("4.50.0")],
        ),
        Met(
            cell=cell("4.51.0"),
            change=Change.BROKE,
            before=before[cell("4.51.0")],
            after=after[cell("4.51.0")],
            grounds=(Ground.CASE,),
        ),
        Met(cell=FAR, change=Change.GONE, before=before[FAR], after=None),
        Met(cell=STRANGE, change=Change.NEW, before=None, after=after[STRANGE]),
    )
    found = meet(before, after, CASES, NAMES)

    assert found == expected
    assert [met.is_comparable for met in found] == [True, False, True, True]


def test_another_error_of_a_case_that_nobody_here_has_is_a_change() -> None:
    one = seen(Outcome.FAILS, STRANGE)
    other = seen(Outcome.FAILS, STRANGE, how=failed("KeyError", "elsewhere"))
    found = [meet(held(one), held(row), CASES, NAMES)[0].change for row in (one, other)]

    assert found == [Change.SAME, Change.CHANGED]


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
        Change.BROKE: Change.FIXED,
        Change.FIXED: Change.BROKE,
        Change.NEW: Change.GONE,
        Change.GONE: Change.NEW,
    }
    there = meet(before, after, CASES, NAMES)
    back = meet(after, before, CASES, NAMES)

    assert [(met.cell, mirrored.get(met.change, met.change), met.grounds) for met in there] == [
        (met.cell, met.change, met.grounds) for met in back
    ]
    assert {met.cell for met in there} <= {*before, *after}


@given(SETS)
def test_a_set_does_not_differ_from_itself(rows: dict[Cell, Observation]) -> None:
    assert not any(met.change.differs or met.grounds for met in meet(rows, rows, CASES, NAMES))


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
WHOLE = Compared(
    before="the publication 2026-11-21",
    after="the store other.sqlite",
    met=meet(BEFORE, AFTER, CASES, (*NAMES, "main")),
    cases=CASES,
    environments=(*NAMES, "main"),
)

PAGE = """\
the publication 2026-11-21 against the store other.sqlite; nothing was run.
Of 10 cells of 2 cases in 8 environments: 5 broke, 0 fixed, 0 changed, 1 new, 1 gone, 2 unknown, \
1 same.
Apart from these, 1 cell of 1 case in 1 environment that are not the same cells on both sides \
(the pins changed in 1): 0 broke, 1 fixed, 0 changed, 0 new, 0 gone, 0 unknown, 0 same.
5 cells of those that differ ran on other hardware or another torch build: the difference may be \
theirs.
First side: 10 cells, measured on CPU (x86_64 avx2), torch 2.13.0+cpu, Python 3.11.9.
Second side: 10 cells, measured on CPU (arm64 and x86_64 avx2), torch 2.13.0+cpu, Python 3.11.9.

Broke
  toy_breaks: A toy breaks
    plain bf16 on 4.49.0 … 4.50.3 (all 5)
      before  passes
      after   fails: ValueError: it breaks (as the case describes)
      note    other hardware
      again   nox -s matrix -- --case toy_breaks --release 4.49.0 --precision bf16 --workaround \
none --rerun

New: on the second side only
  toy_unheard_of: a case that this checkout does not have
    plain bf16 on 4.50.0
      before  not there
      after   fails: KeyError: a | b �[31m <img src=x>

Gone: on the first side only
  toy_breaks: A toy breaks
    plain bf16 on 9.0.0
      before  passes
      after   not there

Unknown: no answer on a side
  toy_breaks: A toy breaks
    plain fp32 on 4.49.0
      before  passes
      after   out-of-memory
      again   nox -s matrix -- --case toy_breaks --release 4.49.0 --precision fp32 --workaround \
none --rerun

Not the same cells: fixed
  toy_breaks: A toy breaks
    plain fp16 on 4.51.0
      before  fails: ValueError: it breaks (as the case describes)
      after   passes
      note    the pins changed
      again   nox -s matrix -- --case toy_breaks --release 4.51.0 --precision fp16 --workaround \
none --rerun
"""


def test_the_page_names_every_cell_that_differs_and_tells_apart_what_is_another_cell() -> None:
    assert text(WHOLE) == PAGE


def test_what_is_pasted_says_the_same_as_tables() -> None:
    pasted = markdown(WHOLE)
    row = (
        "| `toy_breaks`: A toy breaks | `plain fp16 on 4.51.0` |"
        " `fails: ValueError: it breaks (as the case describes)` | `passes` | the pins changed |"
    )
    headings = [line for line in pasted.splitlines() if line.startswith("#")]

    assert pasted.startswith("**the publication 2026-11-21 against the store other.sqlite;")
    assert headings == [
        "### Broke",
        "### New: on the second side only",
        "### Gone: on the first side only",
        "### Unknown: no answer on a side",
        "### Not the same cells: fixed",
    ]
    assert row in pasted.splitlines()
    assert "`fails: KeyError: a \\| b �[31m <img src=x>`" in pasted


def test_programs_get_every_cell_that_is_not_the_same() -> None:
    told = json.loads(as_json(WHOLE))
    cells = [
        (one["case"], one["environment"], one["precision"], one["change"], one["grounds"])
        for one in told["cells"]
    ]
    none = dict.fromkeys(map(str, Change), 0)

    assert told["counts"] == {**none, "broke": 5, "new": 1, "gone": 1, "unknown": 2, "same": 1}
    assert told["not-the-same-cells"] == {**none, "fixed": 1}
    assert cells == [
        ("toy_breaks", "4.49.0", "fp32", "unknown", []),
        *(("toy_breaks", name, "bf16", "broke", ["hardware"]) for name in NAMES[:5]),
        ("toy_breaks", "main", "bf16", "unknown", []),
        ("toy_breaks", "9.0.0", "bf16", "gone", []),
        ("toy_breaks", "4.51.0", "fp16", "fixed", ["pins"]),
        ("toy_unheard_of", "4.50.0", "bf16", "new", []),
    ]


def test_numbers_that_moved_are_told_where_both_sides_pass() -> None:
    one, other = (dataclasses.replace(PASSES, measured={"error": number}) for number in (1.0, 2.0))
    answer = dataclasses.replace(WHOLE, met=meet(held(one), held(other), CASES, NAMES))

    assert "toy_breaks bf16 on 4.50.0: error 1 before, 2 after" in text(answer)
    assert "| `toy_breaks bf16 on 4.50.0` | `error` | `1` | `2` |" in markdown(answer)
    assert json.loads(as_json(answer))["cells"][0]["moved"] == {"error": [1.0, 2.0]}


def test_two_publications_of_one_set_are_said_to_share_no_cell() -> None:
    answer = dataclasses.replace(WHOLE, of_one_set=True)

    assert "belongs to the publication that measured it last" in text(answer)
    assert "belongs to the publication that measured it last" not in text(WHOLE)


def test_hostile_names_stay_text_and_are_in_no_command() -> None:
    hostile = cell("4.50.0\n# heading", workaround="```\n\x1b[31m")
    known = cell("4.50.0", workaround="```\n")
    rows = held(*(seen(Outcome.PASSES, at) for at in (hostile, known)))
    answer = dataclasses.replace(WHOLE, met=meet({}, rows, CASES, NAMES))
    told = (text(answer), markdown(answer))

    assert [answer.again(met) for met in answer.met] == ["", ""]
    for page in told:
        assert "\x1b" not in page
        assert "# heading" not in [line.strip() for line in page.splitlines()]
    assert "```sh" not in told[1]
