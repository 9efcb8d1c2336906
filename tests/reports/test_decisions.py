"""The tables of *Check my versions*: what the functions of `audit` say, once for each place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from factories import BREAKS, case, environment
from packaging.version import Version
from small_site import surveyed

from repromatrix.api import cases
from repromatrix.reports.exports.decisions import _groups, decisions
from repromatrix.reports.exports.matrix_js import assignment
from repromatrix.reports.view import survey
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.outcomes import Precision

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """Return the tables of the small site, as the page gets them."""
    written = assignment("decisions", decisions(surveyed())).decode()
    found: dict[str, Any] = json.loads(written.removeprefix("var decisions = ").rstrip(";\n"))
    return found


def _unfolded(runs: list[int]) -> list[int]:
    pairs = zip(runs[::2], runs[1::2], strict=True)
    return [number for count, number in pairs for _ in range(count)]


def _case(tables: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in tables["cases"] if entry["name"] == name)


def test_a_line_has_a_place_for_each_version_and_each_gap(tables: dict[str, Any]) -> None:
    (grid,) = [one for one in tables["grids"] if one["packages"] == ["transformers"]]

    assert grid["lines"] == [["4.49.0", "4.50.0", "4.50.1", "4.51.0", "5.0.0", "5.0.1"]]
    assert _unfolded(grid["near"]) == list(range(13))


def test_each_place_says_what_was_measured_there_or_on_both_sides(tables: dict[str, Any]) -> None:
    entry = _case(tables, "cache_float")
    series = _unfolded(tables["series"][entry["spots"][0][1]])
    said = [
        (tables["says"][says], tables["levels"][level])
        for says, level, *_ in (tables["conclusions"][number] for number in series)
    ]
    unknown = ("unknown", "unknown")

    assert said == [
        *(unknown, ("clear", "measured")),
        *(unknown, ("hits", "measured"), ("hits", "derived"), ("hits", "measured")),
        *(unknown, ("clear", "measured")),
        *(2 * [("clear", "derived"), ("clear", "measured")]),
        unknown,
    ]


def test_a_hit_says_what_avoids_it_and_what_works(tables: dict[str, Any]) -> None:
    entry = _case(tables, "cache_float")
    bf16 = str(1 << [*Precision].index(Precision.BF16))
    numbers = _unfolded(entry["hits"][bf16])
    verdict, title, error, newer, older, builds, ways = entry["records"][numbers[3]]
    texts, environments_ = tables["texts"], tables["environments"]

    assert [bool(number) for number in numbers] == [place in {3, 4, 5} for place in range(13)]
    assert (texts[verdict], texts[title], texts[error]) == (
        "as-expected",
        entry["title"],
        "AttributeError: 'HybridCache' object has no attribute 'float'",
    )
    assert [environments_[each][0] for each in (newer, older)] == ["4.51.0", "4.49.0"]
    assert [entry["workarounds"][way]["name"] for way, _ in ways] == ["cache-off", "away"]
    assert len(builds) == 1


def test_a_model_that_shares_the_code_is_asked_for_as_one_that_was_run(
    tables: dict[str, Any],
) -> None:
    entry = _case(tables, "merge_quiet")

    assert (entry["families"], entry["shared"]) == (["qwen3"], ["qwen3-vl"])
    assert tables["models"]["qwen3-vl"] == tables["models"]["qwen3"]
    assert tables["models"]["qwen3-vl"] == [tables["cases"].index(entry)]


def test_a_requirement_says_what_every_version_of_its_package_means(
    tables: dict[str, Any],
) -> None:
    (peft,) = [one for one in tables["requirements"] if one["package"] == "peft"]

    assert (peft["absent"], peft["unlisted"][0]) == (
        ["not-applicable", "needs peft, which is not listed"],
        "unknown",
    )


def test_equal_requirements_are_printed_as_each_case_writes_them() -> None:
    toys = [
        case(BREAKS, name=name, dependencies=("torch", f"transformers{clause}"))
        for name, clause in (("one", ">=4.50"), ("other", ">=4.50.0"))
    ]
    held = {name: environment(name) for name in ("4.49.0", "4.50.0")}
    cases = {toy.name: toy for toy in toys}
    found = decisions(survey(cases, [*held.values()], judge_all((), cases, held)))

    assert [entry["requires"] for entry in found["cases"]] == [[0], [1]]
    assert [asked["unlisted"][1] for asked in found["requirements"]] == [
        "needs transformers>=4.50, which is not listed",
        "needs transformers>=4.50.0, which is not listed",
    ]


def test_only_the_page_that_checks_loads_the_tables(site: Path) -> None:
    loading = {
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if "data/decisions.js" in path.read_text("utf-8")
    }

    assert loading == {"check.html"}


@pytest.mark.parametrize(
    ("clause", "version", "met"),
    [
        *((">4.50", text, text == "4.51.0") for text in ("4.49.0", "4.50.0", "4.51.0")),
        *(("==4.50.*", text, "4.50" in text) for text in ("4.49.0", "4.50.1", "4.51.0")),
        *(("~=4.50.0", text, "4.50" in text) for text in ("4.49.0", "4.50.1", "4.51.0")),
        *(("!=4.50.1", text, text != "4.50.1") for text in ("4.49.0", "4.50.1", "4.51.0")),
    ],
)
def test_every_operator_of_a_requirement_has_its_places(
    clause: str, version: str, *, met: bool
) -> None:
    toy = case(BREAKS, dependencies=("torch", f"transformers{clause}"))
    held = {name: environment(name) for name in ("4.49.0", "4.50.0", "4.50.1", "4.51.0")}
    rows = judge_all((), {toy.name: toy}, held)
    (asked,) = decisions(survey({toy.name: toy}, [*held.values()], rows))["requirements"]
    line = [Version(text) for text in asked["line"]]
    below = sum(edge < Version(version) for edge in line)
    place = 2 * below + (Version(version) in line)

    assert bool(asked["holds"][place]) is met


def test_for_which_torches_a_case_that_depends_on_it_is_known_is_said_by_place() -> None:
    depends = case(BREAKS.replace('when = ["', 'when = ["torch>=2.8,<2.9", "'))
    held = {name: environment(name) for name in ("4.49.0", "4.50.0")}
    rows = judge_all((), {depends.name: depends}, held)
    tables = decisions(survey({depends.name: depends}, [*held.values()], rows))
    asked = tables["requirements"][tables["cases"][0]["requires"][-1]]

    assert tables["cases"][0]["deciding"] == ("transformers",)
    assert (asked["package"], asked["line"]) == ("torch", ["2.8", "2.9"])
    assert asked["holds"] == [1, 0, 0, 1, 1]  # before 2.8, in it, between, in 2.9, behind
    assert asked["outside"][1] == "torch {version} is outside the measured versions"
    assert (asked["absent"], asked["unlisted"]) == (None, None)


def test_each_spelling_of_a_model_asks_for_the_same_cases() -> None:
    models = _groups([*cases().values()])["models"]

    assert models["qwen2.5-vl"] == models["qwen2_5_vl"]
    assert models["qwen2.5-vl"] != models["qwen2-vl"]
