"""Of the older release, what was published stands where nothing that ran differs."""

from __future__ import annotations

import pytest
from swept import RECIPES, numbers, record
from tiny_recipes import CONTENT

from repromatrix.runner.evidence.swept.changes import Found
from repromatrix.runner.evidence.swept.history import SweepHistory, SweptRelease
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.sweep.baseline import (
    published_baseline,
    published_of,
    to_measure,
)
from repromatrix.sweep.cells import code_of, probe_cases
from repromatrix.sweep.publishing import history
from repromatrix.sweep.recipe_files import ModelRecipe

HOLDS, FAILS, SKIPPED = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED
RECIPE = ModelRecipe(content=CONTENT)
ENVIRONMENT = Environment(
    name="4.49.0", source=Source.RELEASE, python="3.11", pins={"torch": "2"}, markers={}
)
CASES = probe_cases([RECIPE], PROBES)
"""The cells of llama, one of each family."""


def found(*records: ProbeRecord) -> Found:
    return {one.key: one for one in records}


def published(swept: SweptRelease) -> SweepHistory:
    recipes = [(*RECIPES[0], ""), (*RECIPES[1], RECIPE.digest)]
    records = found(record("llama", "static", FAILS, "no"), record("gptj", "static", HOLDS))
    return history([swept], {swept.name: records}, recipes)


SWEPT = SweptRelease("4.49.0", ENVIRONMENT.digest, "x86_64", 1, (), (), (), code_of(()))


def test_a_release_that_was_published_whole_stands_for_its_measurement() -> None:
    stands = published_baseline(published(SWEPT), ENVIRONMENT, [RECIPE])

    assert stands[ProbeKey("llama", "static")].status is FAILS
    assert stands[ProbeKey("llama", "cached")].status is HOLDS


@pytest.mark.parametrize(
    "otherwise",
    [
        {"environment": "0" * 16},
        {"code": "0" * 16},
        {"code": ""},
        {"chosen": ("llama",)},
        {"lacking": ("static-bf16",)},
    ],
)
def test_nothing_stands_that_was_measured_otherwise_or_in_part(
    otherwise: dict[str, object],
) -> None:
    swept = SWEPT._replace(**otherwise)  # type: ignore[arg-type]

    assert published_baseline(published(swept), ENVIRONMENT, [RECIPE]) == {}


def test_nothing_stands_of_an_architecture_whose_recipe_was_another_one() -> None:
    anew = ModelRecipe(content={**CONTENT, "strategy": "layers"})

    assert {key.kind for key in published_baseline(published(SWEPT), ENVIRONMENT, [RECIPE])} == {
        "llama"
    }
    assert published_baseline(published(SWEPT), ENVIRONMENT, [anew]) == {}


def test_other_probes_are_other_code() -> None:
    assert len({code_of(()), code_of(["static"]), code_of(["lora"])}) == 3


def test_only_cells_are_measured_that_do_otherwise_on_the_newer_release() -> None:
    known = published_baseline(published(SWEPT), ENVIRONMENT, [RECIPE])
    same = known
    assert to_measure(CASES, known, same) == {}

    fixed = {**same, **found(record("llama", "static", HOLDS))}
    assert [*to_measure(CASES, known, fixed)] == ["llama/generate"]
    otherwise = {**same, **found(record("llama", "static", FAILS, "something else"))}
    assert [*to_measure(CASES, known, otherwise)] == ["llama/generate"]
    unknown = {**same, **found(record("llama", "static", SKIPPED))}
    assert to_measure(CASES, known, unknown) == {}


def test_of_a_long_message_only_what_is_published_is_compared() -> None:
    long = "no " * 100
    known = found(record("llama", "build", HOLDS), record("llama", "static", FAILS, long[:200]))
    newer = {**known, **found(record("llama", "static", FAILS, long))}
    generate = {"llama/generate": CASES["llama/generate"]}

    assert to_measure(generate, known, newer) == {}
    assert [
        *to_measure(generate, known, {**newer, **found(record("llama", "static", FAILS, "no"))})
    ] == ["llama/generate"]


def test_numbers_that_differ_by_more_than_the_tolerance_are_measured_again() -> None:
    known = found(record("llama", "build", HOLDS), numbers("llama", 12.0))
    forward = {name: case for name, case in CASES.items() if name == "llama/forward"}
    close, far = ({**known, **found(numbers("llama", norm))} for norm in (12.0 * (1 + 1e-6), 12.1))

    assert to_measure(forward, known, close) == {}
    assert [*to_measure(forward, known, far)] == ["llama/forward"]


def test_what_was_not_published_is_measured() -> None:
    newer = found(record("llama", "build", HOLDS), record("llama", "static", HOLDS))

    assert [*to_measure({"llama/generate": CASES["llama/generate"]}, {}, newer)] == [
        "llama/generate"
    ]
    assert [*to_measure({"llama/generate": CASES["llama/generate"]}, newer, {})] == [
        "llama/generate"
    ]


def test_what_stands_is_only_what_was_asked_for() -> None:
    known = published_baseline(published(SWEPT), ENVIRONMENT, [RECIPE])

    kept = published_of(known, ["llama/attention"])
    probes = [probe.name for probe in PROBES if probe.family == "attention"]
    assert {key.probe for key in kept} == {"build", *probes}
