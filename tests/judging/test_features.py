"""Which features a case needs, as its block says."""

from __future__ import annotations

import dataclasses
import re

import pytest
from factories import case

from repromatrix.runner.cases import case_files, load_case
from repromatrix.runner.judging.features import needed, unused
from repromatrix.runner.model.case import Trigger
from repromatrix.runner.paths import Paths

LOAD, AUTOCAST, ADAPTER = Trigger.LOAD, Trigger.AUTOCAST, Trigger.ADAPTER
CORPUS = [load_case(path, path.name, code=False) for path in case_files(Paths().cases)]


@pytest.mark.parametrize(
    ("title", "concerns", "triggers", "packages", "expected"),
    [
        ("A toy breaks", "", [LOAD], [], set()),
        ("FSDP2 on a module of your own", "", [LOAD], [], {"fsdp2", "custom-model"}),
        ("A toy breaks", "Every model in FP8; DoRA cannot meet it.", [LOAD], [], {"float8"}),
        ("A toy breaks", "", [AUTOCAST], [], {"autocast"}),
        ("A toy breaks", "", [AUTOCAST, LOAD], [], set()),
        ("A toy breaks under autocast", "", [AUTOCAST, LOAD], [], {"autocast"}),
        ("A toy breaks unless it is under autocast", "", [LOAD], [], set()),
        ("A DoRA toy breaks", "", [ADAPTER, LOAD], ["peft>=0.14"], {"dora", "adapter"}),
    ],
)
def test_a_feature_is_needed_that_words_a_trigger_or_a_package_name(
    title: str, concerns: str, triggers: list[Trigger], packages: list[str], expected: set[str]
) -> None:
    toy = case(dependencies=packages)
    said = {"title": title, "concerns": concerns, "trigger": tuple(triggers)}

    assert needed(dataclasses.replace(toy, block=toy.block.model_copy(update=said))) == expected


def test_an_entry_with_a_title_of_its_own_is_another_bug() -> None:
    toy = case(
        '[[tool.repromatrix.fails]]\ntitle = "A toy breaks on disk"\nraises = "E"\nmatch = "e"\n'
        '[[tool.repromatrix.fails]]\ntrigger = ["compile"]\nraises = "E"\nmatch = "f"\n'
    )
    toy = dataclasses.replace(toy, block=toy.block.model_copy(update={"title": "FSDP2 breaks"}))

    assert [needed(toy, entry) for entry in toy.block.fails] == [set(), {"fsdp2", "compile"}]


def test_what_is_used_brings_what_it_implies_and_the_special_stands_for_the_general() -> None:
    assert unused({"dora", "adapter"}, ()) == ("dora",)
    assert unused({"dora", "adapter"}, {"adapter"}) == ("dora",)
    assert unused({"adapter"}, {"dora"}) == ()
    assert unused({"static-cache", "autocast"}, {"fsdp"}) == ("autocast", "static-cache")


@pytest.mark.parametrize(
    ("feature", "code"),
    [
        ("adapter", r"\bpeft\b.*import|import.*\bpeft\b"),
        ("compile", r"torch\.compile\("),
        ("dora", "DoRA|use_dora"),
        ("flash-attention", "flash"),
        ("float8", "float8_"),
        ("fsdp2", r"fsdp_version=2|fully_shard\("),
        ("gradient-checkpointing", "gradient_checkpointing"),
        ("group-beam-search", "num_beam_groups"),
        ("offload", "offload"),
        ("static-cache", r'StaticCache\(|="static"'),
        ("tensor-parallel", "tp_plan|enable_expert_parallel"),
    ],
)
def test_what_the_code_of_a_case_uses_its_words_name(feature: str, code: str) -> None:
    used = {case.name for case in CORPUS if re.search(code, case.script.code)}

    assert used
    assert used - {case.name for case in CORPUS if feature in needed(case)} == set()
