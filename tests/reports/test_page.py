"""The pages, by the values that reach the templates: a new style breaks nothing here."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from one_case import (
    BLOCK,
    CASE,
    ENVIRONMENTS,
    a_case,
    an_environment,
    changed,
    fake_run,
    judged,
    observed,
    surveyed,
)
from rendered import pages

from repromatrix.reports.build import render
from repromatrix.reports.pages.case import case_page
from repromatrix.reports.pages.index import index
from repromatrix.reports.sections.cells import Repeat
from repromatrix.reports.sections.grid import (
    Column,
    GridTable,
    ReleaseLine,
    ShownMark,
    StackColumn,
    grid,
    lines,
)
from repromatrix.reports.sections.provenance import Settings
from repromatrix.reports.sections.status import Newest, newest
from repromatrix.reports.sections.workarounds import (
    Effect,
    Effects,
    Where,
    WorkaroundAdvice,
    advise,
    effect,
)
from repromatrix.reports.text import Link, excerpt, link_to, requirements_words, spans
from repromatrix.reports.view import Survey, survey
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.case import Symptom, by_variant
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.requirements import parse

if TYPE_CHECKING:
    from pathlib import Path


PLAIN_FP32 = Cell("cache_float", "", "4.50.1", Precision.FP32, Device.CPU)
PLAIN_BF16 = PLAIN_FP32._replace(precision=Precision.BF16)


def glyphs(found: Survey) -> dict[str, list[str]]:
    """Return the grids as pictures: fp32, bf16 and fp16 of every release."""
    rows = [row for case in found.cases.values() for row in grid(found, case, Device.CPU).rows]
    return {
        row.label: ["".join(mark.glyph for mark in drawn(stack)) for stack in row.stacks]
        for row in rows
    }


def the_grid(found: Survey) -> GridTable:
    """Return the grid of the first case on the first device."""
    return grid(found, next(iter(found.cases.values())), found.devices[0])


def drawn(stack: StackColumn) -> tuple[ShownMark, ...]:
    """Return a mark for every precision: one stands for all where they agree."""
    return stack.marks * 3 if len(stack.marks) == 1 else stack.marks


def counted(found: Survey) -> dict[str, int]:
    tallies = index(found, ()).headline.tallies
    return {
        mark.value: numbers[0]
        for tally in tallies
        for mark, numbers in tally["marks"]
        if numbers[0]
    }


@pytest.mark.parametrize(
    ("name", "source", "parts"),
    [
        ("4.51.0+peft0.15.2", Source.PAIR, ("4.51.0", "peft0.15.2")),
        ("4.51.0+accelerate1.10.0", Source.PAIR, ("4.51.0", "accelerate", "1.10.0")),
        ("ms-swift3.3.0", Source.STACK, ("ms-swift", "3.3.0")),
    ],
)
def test_a_pair_or_a_stack_has_its_name_in_pieces(
    name: str, source: Source, parts: tuple[str, ...]
) -> None:
    environment = an_environment(name, source)
    line = ReleaseLine(label=name, columns=(Column(name=name, label=""),), parts=parts)

    assert lines([*ENVIRONMENTS, environment])[-1] == line


def test_a_case_with_extras_stands_in_the_column_of_the_release_and_says_so() -> None:
    case = replace(CASE, extras=("timm",))
    environments = [an_environment("4.50.0"), an_environment("4.50.0+timm")]
    grid = the_grid(survey({case.name: case}, environments, ()))

    assert [column.name for line in grid.lines for column in line.columns] == ["4.50.0"]
    assert grid.rows[0].extras == "+timm"
    assert [len(stack.marks) for stack in grid.rows[0].stacks] == [1]


@pytest.mark.parametrize(
    ("needs", "columns", "apart"),
    [
        ("torch", ["4.50.0"], ""),
        ("ms-swift", ["ms-swift3.3.0"], "stack"),
        ("flash-attn", ["4.50.0+flash-attn2.7.4"], "pair"),
    ],
)
def test_a_case_that_needs_what_no_release_has_has_no_columns_of_releases(
    needs: str, columns: list[str], apart: str
) -> None:
    pair = an_environment("4.50.0+flash-attn2.7.4", Source.PAIR)
    pair = replace(pair, pins={**pair.pins, "flash-attn": "2.7.4"})
    block = BLOCK.replace('"torch"', f'"{needs}"')
    if apart == "pair":
        block = block.replace("title =", f'environments = ["{pair.name}"]\ntitle =')
    case = a_case(block)
    stack = an_environment("ms-swift3.3.0", Source.STACK)
    stack = replace(stack, pins={**stack.pins, "transformers": "4.50.0", "ms-swift": "3.3.0"})
    found = survey({case.name: case}, [an_environment("4.50.0"), pair, stack], ())
    grid = the_grid(found)

    assert (apart != "") is (case_page(found, case).timelines == ())
    assert columns == [column.name for line in grid.lines for column in line.columns]
    assert apart == grid.apart


def test_an_interpreter_stands_beside_the_pairs_of_a_case_that_no_release_can_run() -> None:
    name = "4.50.0+flash-attn2.7.4"
    pair = an_environment(name, Source.PAIR)
    pair = replace(pair, pins={**pair.pins, "flash-attn": "2.7.4"})
    mine = replace(pair, name="4.50.0@80ce94b6", source=Source.INTERPRETER)
    block = BLOCK.replace('"torch"', '"flash-attn"')
    case = a_case(block.replace("title =", f'environments = ["{name}"]\ntitle ='))
    cell = Cell(case.name, "", "4.50.0", Precision.BF16, Device.CPU)
    row = replace(observed(cell, Outcome.PASSES), cell=cell._replace(environment="4.50.0@80ce94b6"))
    environments = [an_environment("4.50.0"), pair, mine]
    known = {one.name: one for one in environments}
    found = survey({case.name: case}, environments, judge_all([row], {case.name: case}, known))
    grid = the_grid(found)

    assert [column.name for line in grid.lines for column in line.columns] == [name, mine.name]
    assert grid.apart == "pair"


def test_the_counts_are_those_of_the_marks_in_the_grid() -> None:
    found = surveyed()
    in_the_grid = Counter(
        mark.style.removesuffix(" here")
        for row in the_grid(found).rows
        for stack in row.stacks
        for mark in drawn(stack)
    )
    expected = {"passes": 25, "fails": 2, "not-applicable": 9, "unbuildable": 9}

    assert expected == counted(found) == dict(in_the_grid)
    assert index(found, ()).headline.cells == (45,)


def test_the_first_sentence_says_how_the_newest_release_stands() -> None:
    silent = replace(CASE, block=CASE.block.model_copy(update={"symptom": (Symptom.NAN_OR_INF,)}))
    found = replace(surveyed(), cases={CASE.name: silent})
    fails = survey({CASE.name: silent}, ENVIRONMENTS[:3], judged())
    waits = survey({CASE.name: CASE}, ENVIRONMENTS, ())

    assert newest(found) == Newest("4.51.0", "0 known bugs; 1 fixed", "")
    assert newest(fails) == Newest(
        "4.50.1", "1 known bug, 1 of them silent (1 in half precision only)", ""
    )
    assert newest(waits) is None


def test_what_is_unknown_on_the_newest_release_is_not_called_fixed() -> None:
    there = PLAIN_BF16._replace(environment="4.51.0")
    run = changed(there, lambda seen: replace(seen, outcome=Outcome.OUT_OF_MEMORY))
    beside = a_case(name="beside")
    cases = {CASE.name: CASE, beside.name: beside}
    found = survey(cases, ENVIRONMENTS, [*judged(run), *judged(case=beside)])

    assert newest(surveyed(run)) == Newest(
        "4.50.1", "1 known bug, 0 of them silent (1 in half precision only)", ""
    )
    assert newest(found) == Newest("4.51.0", "0 known bugs; 1 fixed; 1 unknown", "")


def test_what_nobody_reported_is_not_called_reported() -> None:
    found = surveyed()
    ours = replace(
        CASE, name="another", block=CASE.block.model_copy(update={"found_by": "measurement"})
    )
    both = replace(found, cases={**found.cases, "another": ours})
    expected = (
        "2 known bugs of the Hugging Face ecosystem, 1 in half precision only and"
        " 1 in unknown precisions: 2 cases, 1 reported and 1 found by measurement, tested on "
    )

    assert index(both, ()).headline.sentence.startswith(expected)


def test_a_published_result_that_is_denied_here_stands_beside_the_own_one() -> None:
    rows = judged()
    at = next(place for place, row in enumerate(rows) if row.seen.cell == PLAIN_FP32)
    told = replace(rows[at].seen, outcome=Outcome.TIMES_OUT, source="2026-11-21")
    both = ("here: passes", "published (2026-11-21): times out")
    rows = (*rows[:at], replace(rows[at], published=told), *rows[at + 1 :])
    page = case_page(survey({CASE.name: CASE}, ENVIRONMENTS, rows), CASE)
    shown = [seen for block in page.blocks for way in block.variants for seen in way.stack]

    assert page.local.denied == ("fp32 on 4.50.1. here: passes; published (2026-11-21): times out",)
    assert [seen.both for seen in shown if seen.both] == [both]


def test_without_evidence_every_cell_is_not_run_and_every_page_is_drawn() -> None:
    found = survey({CASE.name: CASE}, ENVIRONMENTS, ())
    page = case_page(found, CASE)

    assert counted(found) == {"not-run": 45}
    assert Settings(found).whole().cells == {}
    assert {"nothing measured"} == {item["tally"] for row in page.ranges for item in row["fails"]}
    assert (page.failures, page.numbers, page.dtypes.rows) == ((), (), ())


def test_of_a_gpu_a_page_shows_only_the_releases_that_were_measured_there() -> None:
    rows = [
        row
        for row in judged(devices=tuple(Device))
        if row.seen.cell.device is Device.CPU or row.seen.cell.environment == "4.50.1"
    ]
    found = survey({CASE.name: CASE}, ENVIRONMENTS, rows)
    first, second = case_page(found, CASE).grids

    assert [grid.words["device"] for grid in (first, second)] == [", cpu", ", cuda"]
    assert [line.width for line in second.lines] == [1]
    assert [line.label for line in second.lines] == ["4.50"]
    assert sum(line.width for line in first.lines) == len(ENVIRONMENTS)
    assert [cell.environment for cell, _ in found.shown if cell.device is Device.CUDA] == (
        ["4.50.1"] * len(Precision) * len(CASE.branches)
    )


def test_a_pair_is_a_column_only_for_the_cases_that_name_it() -> None:
    pair = an_environment("4.51.0+peft0.15.2", Source.PAIR)
    named = a_case(BLOCK.replace("title =", 'environments = ["4.51.0+peft0.15.2"]\ntitle ='), "b")
    found = survey({"a": a_case(name="a"), "b": named}, [ENVIRONMENTS[3], pair], ())

    assert {name: rows for name, rows in glyphs(found).items() if name in {"a", "b"}} == {
        "a": ["···"],
        "b": ["···", "···"],
    }


def test_a_page_says_in_which_function_it_fails() -> None:
    place = "accelerate.utils.operations:_convert_to_fp32"
    entry = CASE.block.fails[0].model_copy(update={"where": (place, "accelerate.moved:f")})
    case = replace(CASE, block=CASE.block.model_copy(update={"fails": (entry,)}))
    trace = '  File "site-packages/accelerate/utils/operations.py", line 7, in _convert_to_fp32\n'

    def run(at: Cell) -> Observation | None:
        row = fake_run(at)
        if row is None or row.failed is None:
            return row
        return replace(row, failed=replace(row.failed, traceback=trace))

    page = case_page(surveyed(run), case)

    assert page.expectations[0].places == (place, "accelerate.moved:f")
    assert page.failures[0].raised_in == (place,)


def test_a_workaround_is_judged_beside_the_plain_case() -> None:
    """By whether the plain case fails, and whether it fails with the workaround."""
    expected = {
        (True, False): Effect.FIXES,
        (False, False): Effect.NOT_NEEDED,
        (False, True): Effect.HARMS,
        (True, True): Effect.DOES_NOT_HELP,
        (True, None): Effect.NOT_PROVEN,
        (None, True): None,
        (False, None): None,
    }

    assert {pair: effect(*pair) for pair in expected} == expected


def test_a_workaround_counts_for_as_many_releases_as_it_heals() -> None:
    heals = Where(effect=Effect.FIXES, releases="4.50.0 to 4.50.1", number=2)
    other = Where(effect=Effect.DOES_NOT_HELP, releases="4.51.0", number=1)
    effects = (Effects(precisions="bf16", device="cpu", where=(heals, other)),)
    says = {"name": "a", "anchor": "a", "says": "A.", "snippet": ""}
    advice = WorkaroundAdvice(**says, skips=False, refuted=False, effects=effects)

    assert advice.fixes == {"bf16: 4.50.0 to 4.50.1": 2}


def test_a_command_for_a_gpu_says_so() -> None:
    found = surveyed(devices=(Device.CUDA,))
    page = case_page(found, CASE)

    assert [grid.device for grid in page.grids] == [Device.CUDA]
    assert page.repeat[0] == Repeat(
        cell="bf16 on 4.50.1",
        nox="nox -s matrix -- --case cache_float --release 4.50.1 --precision bf16 "
        "--device cuda --rerun",
        uv="REPRO_DEVICE=cuda uv run --with transformers==4.50.1 cases/cache_float.py bf16",
        alone="REPRO_DEVICE=cuda uv run --with transformers==4.50.1 cache_float.py bf16",
    )


def test_a_variant_has_a_page_of_its_own_and_runs_the_script_of_its_case() -> None:
    models = 'models = ["gemma3"]'
    varied = a_case(BLOCK.replace(models, f'{models}\nvariants = ["gemma3", "paligemma"]'))
    gemma, other = by_variant(varied)
    cases = {case.name: case for case in (gemma, other)}
    rows = [row for case in cases.values() for row in judged(case=case)]
    found = survey(cases, ENVIRONMENTS, rows)

    page = case_page(found, other)

    assert (page.name, page.title, page.file) == (
        *("cache_float[paligemma]", "The cache has no float [paligemma]", "cache_float.py"),
    )
    assert page.repeat[0].alone == (
        "REPRO_VARIANT=paligemma uv run --with transformers==4.50.1 cache_float.py bf16"
    )


def test_spans_name_the_ends_of_neighbours() -> None:
    places = {"a": 0, "b": 1, "c": 2, "d": 3}

    assert spans((), places) == spans(("elsewhere",), places) == ""
    assert [spans(names, places) for names in ("ba", "acd")] == ["a to b", "a, c to d"]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//x", "http://["])
def test_only_addresses_of_the_web_become_links(address: str) -> None:
    assert Link(text=address, href="") == link_to(address)


def test_a_requirement_is_read_from_its_lower_bound() -> None:
    text = 'transformers>=4.50,<4.51; python_version < "3.12"'

    assert requirements_words([parse(text)]) == text


def test_a_message_that_is_too_long_keeps_both_ends() -> None:
    assert excerpt("a" * 50 + "z" * 50, 10) == "aaaaa\n… 90 characters left out …\nzzzzz"


def test_characters_that_act_on_a_screen_are_made_visible() -> None:
    assert excerpt("\x1b[31m\u202ered", 99) == "␛[31m�red"


def test_the_same_evidence_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    rows = judged(devices=tuple(Device))
    render({CASE.name: CASE}, ENVIRONMENTS, rows, tmp_path / "one")
    render({CASE.name: CASE}, ENVIRONMENTS, tuple(reversed(rows)), tmp_path / "two")

    assert pages(tmp_path / "one") == pages(tmp_path / "two")


def test_an_empty_site_is_drawn(tmp_path: Path) -> None:
    render({}, (), (), tmp_path)

    assert " ".join(path.stem for path in sorted(tmp_path.rglob("*.html"))) == (
        "404 architectures changes check claims compare data findings index main models packages"
        " releases"
    )


def test_the_page_lets_nothing_in_but_its_own_files(tmp_path: Path) -> None:
    render({CASE.name: CASE}, ENVIRONMENTS, (), tmp_path)

    for name in ("index.html", "case/cache_float.html"):
        assert (
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
            "base-uri 'none'; form-action 'none'"
        ) in (tmp_path / name).read_text()


def test_a_workaround_that_never_works_is_told_apart() -> None:
    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell._replace(workaround="") if cell.workaround == "cache-off" else cell)
        return seen and replace(seen, cell=cell)

    assert [(one.name, one.refuted) for one in advise(surveyed(run), CASE)] == [
        ("away", False),
        ("cache-off", True),
    ]
