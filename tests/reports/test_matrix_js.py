"""What the first page's scripts are given: values, and the scripts that they are written as."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from factories import case, case_text, environment, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st
from small_site import CASES, ENVIRONMENTS, HOSTILE, judged, surveyed

from repromatrix.reports.exports.matrix_js import (
    NO_CELL,
    ColumnHead,
    Folded,
    Sign,
    TableEntry,
    Track,
    Way,
    assignment,
    data,
)
from repromatrix.reports.pages.case import case_page
from repromatrix.reports.pages.index import Item, case_list
from repromatrix.reports.sections.failures import KnownFailure, Trace, frames, signatures
from repromatrix.reports.view import survey
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.case import Symptom, Trigger, read_case
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.observation import MERGED, NOISE
from repromatrix.runner.model.outcomes import Device, Outcome, Precision, Verdict

if TYPE_CHECKING:
    from repromatrix.runner.judging.verdicts import Judged
    from repromatrix.runner.model.observation import Observation

DISPUTED = Cell("norm_drift", "", "4.50.0", Precision.FP32, Device.CPU)
PASSED = ("passes", "passes", "yes", 0, 1, 0, "")
MESSAGE = "'HybridCache' object has no attribute 'float'"


def unfolded(folded: Folded) -> list[int]:
    return [
        number
        for count, number in zip(folded[::2], folded[1::2], strict=True)
        for _ in range(count)
    ]


def test_every_cell_is_there_and_says_what_was_seen() -> None:
    found = data(surveyed())
    entry = {one.name: one for one in found.cases}["cache_float"]
    rows = [
        [tuple(found.told[told] for told in found.stacks[stack]) for stack in row]
        for row in (unfolded(track.stacks) for track in entry.tracks)
    ]
    failed = ("fails", "fails", "yes", 0, 1, 0, f"AttributeError: {MESSAGE}")
    unbuildable = ("unbuildable", "unbuildable", "", 0, 0, 0, "")
    passes, fails = (PASSED,) * 3, (PASSED, failed, PASSED)

    assert rows[0] == [passes, fails, fails, passes, passes, passes, (unbuildable,) * 3]
    assert rows[1:] == [[*(passes,) * 6, (unbuildable,) * 3]] * 2


def test_a_case_is_there_with_its_rows() -> None:
    found = data(surveyed())
    quiet = {one.name: one for one in found.cases}["merge_quiet"]
    expected = TableEntry(
        name="merge_quiet",
        title=f"About merge_quiet {HOSTILE}",
        area="loading",
        models=("qwen3",),
        shared=("qwen3-vl",),
        packages=("peft", "torch"),
        trigger=(Trigger.LOAD,),
        symptom=(Symptom.WRONG_DTYPE,),
        silent=True,
        reported=True,
        badges=("by shared code: qwen3-vl", "load", "wrong dtype"),
        simulated=True,
        extras="",
        ways={},
        tracks=(
            Track(workaround="", device=Device.CPU, stacks=quiet.tracks[0].stacks, numbers={}),
        ),
    )

    assert expected == quiet
    assert {one.name: one.ways for one in found.cases}["cache_float"] == {
        "away": Way(says="Do not evaluate.", skips=True),
        "cache-off": Way(says="Switch the cache off.", skips=False),
    }


def test_columns_marks_and_areas_stand_in_their_order() -> None:
    found = data(surveyed())

    assert [one.line for one in found.columns] == [
        *("4.49", "4.50", "4.50"),
        *("4.51", "5.0", "5.0", "main"),
    ]
    assert found.columns[1] == ColumnHead(
        name="4.50.0",
        line="4.50",
        label="0",
        source=Source.RELEASE,
        packages="transformers 4.50.0, torch 2.13.0",
    )
    assert {one.value: sign for one, sign in found.marks.items()}["regressed"] == Sign(
        glyph="R", words="regressed: fails, expected to pass", verdict=Verdict.REGRESSED
    )
    assert [*found.areas.items()] == [
        ("norms", "Norms"),
        ("kv-cache", "Key-value cache"),
        ("loading", "loading"),
    ]
    assert [one.name for one in found.cases] == ["norm_drift", "cache_float", "merge_quiet"]


def test_where_a_case_has_no_cell_nothing_is_made_up() -> None:
    pair = environment("5.0.0+peft0.15.2", source=Source.PAIR)
    environments = (*ENVIRONMENTS.values(), pair)
    found = data(survey(CASES, environments, judged()))
    row = unfolded(found.cases[0].tracks[0].stacks)

    assert len(row) == len(environments)
    assert row[-1] == NO_CELL
    assert NO_CELL not in row[:-1]


def test_numbers_are_told_by_precision_and_equal_neighbours_once() -> None:
    rows = [one if one.seen.cell.case != "norm_drift" else _measured(one) for one in judged()]
    found = data(survey(CASES, tuple(ENVIRONMENTS.values()), rows))
    [track] = {one.name: one for one in found.cases}["norm_drift"].tracks

    assert found.numbers == ("error = 0.3333",)
    assert track.numbers == {"bf16": (6, 0, 1, NO_CELL)}


def _measured(one: Judged) -> Judged:
    """Let bf16 have a number wherever it could be run."""
    if one.seen.cell.precision is not Precision.BF16 or not one.seen.outcome.was_run:
        return one
    return replace(one, seen=replace(one.seen, measured={"error": 1 / 3}))


def test_every_known_failure_has_its_signature_and_what_to_do() -> None:
    found = {one.case: one for one in signatures(surveyed(), "cpu").cases}
    expected = KnownFailure(
        case="cache_float",
        title=f"About cache_float {HOSTILE}",
        href="case/cache_float.html",
        raises=("AttributeError",),
        matches=("no attribute 'float'",),
        place=1,
        traces=(
            Trace(
                signature=f"AttributeError: {MESSAGE}",
                headline=f"AttributeError: {MESSAGE}",
                anchor="failure-1",
                frames=(),
                where="bf16: 4.50.0 to 4.50.1",
                fixes=("cache-off",),
            ),
        ),
    )

    assert expected == found["cache_float"]
    assert set(found) == {"cache_float", "norm_drift"}


def test_what_is_equally_near_stands_by_newest_release_then_range_then_reports() -> None:
    releases = {name: environment(name) for name in ("5.0.0", "5.1.0", "5.2.0")}
    failing = {
        "a_old": ["5.0.0"],
        "b_ended": ["5.0.0", "5.1.0"],
        "c_later": ["5.1.0"],
        "d_open": ["5.1.0", "5.2.0"],
        "e_told": ["5.1.0", "5.2.0"],
    }
    # The last one has a report more than the one before it.
    known = {name: case(name=name) for name in failing}
    told = case_text().replace('/1"]', '/1", "https://example.org/2"]')
    known["e_told"] = read_case(told, "cases/e_told.py")
    rows = [
        seen(
            Outcome.FAILS if name in failing[one.name] else Outcome.PASSES,
            Cell(one.name, "", name, Precision.BF16, Device.CPU),
            how=failed("ValueError", "the same") if name in failing[one.name] else None,
            ran=provenance(one, releases[name]),
        )
        for one in known.values()
        for name in releases
    ]
    found = survey(known, tuple(releases.values()), judge_all(rows, known, releases))

    ordered = sorted(signatures(found, "cpu").cases, key=lambda one: one.place)
    assert [one.case for one in ordered] == ["e_told", "d_open", "c_later", "b_ended", "a_old"]


def test_a_release_is_called_by_its_name_and_what_lies_on_top_of_it_is_said_once() -> None:
    block = '[tool.repromatrix.workarounds]\naway = "Another."\n'
    top = ("pillow", "scipy")
    needs = ("torch", "transformers", *top)
    one = case(block, name="matcher", dependencies=needs, extras=top)
    tops = ("", "+pillow+scipy")
    names = [f"{name}{top}" for top in tops for name in ("5.0.0", "5.1.0", "5.2.0")]
    environments = {name: environment(name) for name in names}
    how = failed("ValueError", "cost matrix is infeasible")

    def ran(name: str, way: str) -> Observation:
        fails = not way and name != "5.2.0+pillow+scipy"
        return seen(
            Outcome.FAILS if fails else Outcome.PASSES,
            Cell(one.name, way, name, Precision.FP16, Device.CPU),
            how=how if fails else None,
            ran=provenance(one, environments[name]),
            computed={"float16": 3},
        )

    rows = [ran(name, way) for name in names[3:] for way in one.branches]
    known = {one.name: one}
    found = survey(known, tuple(environments.values()), judge_all(rows, known, environments))
    page = case_page(found, one)
    [trace] = signatures(found, "cpu").cases[0].traces

    assert trace.where == "fp16: 5.0.0 to 5.1.0 (with pillow and scipy installed)"
    assert page.facts["on every release"] == "with pillow and scipy"
    assert [place.releases for signed in page.failures for place in signed.places] == [
        "5.0.0 to 5.1.0"
    ]
    assert [one.releases for one in page.wording.versions] == ["5.0.0 to 5.1.0"]
    assert [one.releases for one in page.workarounds[0].effects[0].where] == [
        *("5.0.0 to 5.1.0", "5.2.0"),
    ]
    assert {row.release for row in page.dtypes.rows} == {"5.2.0"}


def test_the_rules_of_signatures_are_the_runners_with_letters_of_every_alphabet() -> None:
    written = signatures(surveyed(), "cpu").noise

    assert [put for _, put in written] == [put for _, put in NOISE]
    assert written[1][0] == r"(?:[A-Za-z]:)?(?:/[\p{L}\p{N}_.+@~-]+){2,}/?"
    assert not [pattern for pattern, _ in written if r"\w" in pattern]


def test_frames_are_named_as_inside_any_environment() -> None:
    trace = (
        '  File "cases/x.py", line 3, in <module>\n    main()\n'
        '  File "/v/lib/site-packages/torch/nn/functional.py", line 9, in linear\n'
    )

    assert frames(trace) == ("cases/x.py:<module>", "torch/nn/functional.py:linear")


def test_the_plain_list_says_where_a_case_fails() -> None:
    assert case_list(surveyed()) == (
        Item(
            name="cache_float",
            title=f"About cache_float {HOSTILE}",
            area="Key-value cache",
            href="case/cache_float.html",
            fails=("bf16: 4.50.0 to 4.50.1, fixed in 4.51.0",),
            unmeasured="",
        ),
        Item(
            name="merge_quiet",
            title=f"About merge_quiet {HOSTILE}",
            area="loading",
            href="case/merge_quiet.html",
            fails=(),
            unmeasured="",
        ),
        Item(
            name="norm_drift",
            title=f"About norm_drift {HOSTILE}",
            area="Norms",
            href="case/norm_drift.html",
            fails=("fp16: 5.0.1, not fixed",),
            unmeasured="",
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    left: str
    right: dict[str, float]


def test_a_value_is_written_as_a_script_that_ends_no_element() -> None:
    text = "</script><!-- \u2028 \udcff & 'x' \""
    written = assignment("known", Pair(left=text, right={"a": 0.5})).decode()
    head, _, content = written.rstrip(";\n").partition(" = ")

    assert head == "var known"
    assert json.loads(content) == {"left": text, "right": {"a": 0.5}}
    assert not set(written) & set("<>&\u2028")


@given(st.recursive(st.text() | st.integers(), st.lists))
def test_what_is_written_is_read_again(value: object) -> None:
    written = assignment("x", value).decode("ascii")

    assert json.loads(re.sub(r"^var x = |;$", "", written.strip())) == value


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="a set is no value of a script"):
        assignment("x", {1})


def test_precisions_and_devices_are_those_that_were_looked_at() -> None:
    found = data(surveyed())

    assert (found.precisions, found.devices) == (tuple(Precision), (Device.CPU,))


def test_the_detail_of_a_disputed_cell_names_the_sides_and_no_number_of_runs() -> None:
    [one] = [one for one in judged() if one.seen.cell == DISPUTED]
    other = replace(one.seen, outcome=Outcome.DECLINES, source=MERGED)
    seen = replace(one.seen, unstable=True, repeats=3, sides=(one.seen, other))
    found = data(survey(CASES, tuple(ENVIRONMENTS.values()), [replace(one, seen=seen)]))

    assert found.told[1][5:] == (
        0,
        (
            "disputed between machines: passes (here, x86_64 avx2, torch 2.13.0+cpu);"
            " declines (x86_64 avx2, torch 2.13.0+cpu)"
        ),
    )
