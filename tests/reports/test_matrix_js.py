"""What the first page's scripts are given: values, and the scripts that they are written as."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from factories import case, case_text, environment, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st
from small_site import CASES, ENVIRONMENTS, judged, surveyed

from repromatrix.reports.exports.matrix_js import NO_CELL, assignment, data
from repromatrix.reports.pages.case import case_page
from repromatrix.reports.sections.failures import frames, signatures
from repromatrix.reports.view import survey
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.case import read_case
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.observation import MERGED, NOISE
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.model.observation import Observation

DISPUTED = Cell("norm_drift", "", "4.50.0", Precision.FP32, Device.CPU)


def unfolded(folded: tuple[int, ...]) -> list[int]:
    return [
        number
        for count, number in zip(folded[::2], folded[1::2], strict=True)
        for _ in range(count)
    ]


def test_where_a_case_has_no_cell_nothing_is_made_up() -> None:
    pair = environment("5.0.0+peft0.15.2", source=Source.PAIR)
    environments = (*ENVIRONMENTS.values(), pair)
    found = data(survey(CASES, environments, judged()))
    row = unfolded(found["cases"][0]["tracks"][0]["stacks"])

    assert len(row) == len(environments)
    assert row[-1] == NO_CELL
    assert NO_CELL not in row[:-1]


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

    ordered = sorted(signatures(found, "cpu")["cases"], key=itemgetter("place"))
    assert [one["case"] for one in ordered] == ["e_told", "d_open", "c_later", "b_ended", "a_old"]


def test_a_release_is_called_by_its_name_and_what_lies_on_top_of_it_is_said_once() -> None:
    block = '[tool.repromatrix.workarounds]\naway = "Another."\n'
    top = ("pillow", "scipy")
    needs = ("torch", "transformers", *top)
    one = case(block, name="matcher", dependencies=needs, extras=top)
    tops = ("", "+pillow+scipy")
    names = [f"{name}{top}" for top in tops for name in ("5.0.0", "5.1.0", "5.2.0")]
    environments = {name: environment(name, transformers=name.partition("+")[0]) for name in names}
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
    [trace] = signatures(found, "cpu")["cases"][0]["traces"]

    assert trace["where"] == "fp16: 5.0.0 to 5.1.0 (with pillow and scipy installed)"
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
    written = signatures(surveyed(), "cpu")["noise"]

    assert [put for _, put in written] == [put for _, put in NOISE]
    assert written[1][0] == r"(?:[A-Za-z]:)?(?:/[\p{L}\p{N}_.+@~-]+){2,}/?"
    assert not [pattern for pattern, _ in written if r"\w" in pattern]


def test_frames_are_named_as_inside_any_environment() -> None:
    trace = (
        '  File "cases/x.py", line 3, in <module>\n    main()\n'
        '  File "/v/lib/site-packages/torch/nn/functional.py", line 9, in linear\n'
    )

    assert frames(trace) == ("cases/x.py:<module>", "torch/nn/functional.py:linear")


def test_a_value_is_written_as_a_script_that_ends_no_element() -> None:
    text = "</script><!-- \u2028 \udcff & 'x' \""
    written = assignment("known", {"left": text, "right": {"a": 0.5}}).decode()
    head, _, content = written.rstrip(";\n").partition(" = ")

    assert head == "var known"
    assert json.loads(content) == {"left": text, "right": {"a": 0.5}}
    assert not set(written) & set("<>&\u2028")


@given(st.recursive(st.text() | st.integers(), st.lists))
def test_what_is_written_is_read_again(value: object) -> None:
    written = assignment("x", value).decode("ascii")

    assert json.loads(re.sub(r"^var x = |;$", "", written.strip())) == value


def test_the_detail_of_a_disputed_cell_names_the_sides_and_no_number_of_runs() -> None:
    [one] = [one for one in judged() if one.seen.cell == DISPUTED]
    other = replace(one.seen, outcome=Outcome.DECLINES, source=MERGED)
    seen = replace(one.seen, unstable=True, repeats=3, sides=(one.seen, other))
    found = data(survey(CASES, tuple(ENVIRONMENTS.values()), [replace(one, seen=seen)]))

    assert found["told"][1][5:] == (
        0,
        (
            "disputed between machines: passes (here, x86_64 avx2, torch 2.13.0+cpu);"
            " declines (x86_64 avx2, torch 2.13.0+cpu)"
        ),
    )
