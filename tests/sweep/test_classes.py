"""Further classes: a line each of what differs from the recipe of their architecture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tiny_recipes import CONTENT

from repromatrix.runner.errors import RunnerError
from repromatrix.sweep.classes import (
    NAME,
    entry_of,
    load_classes,
    made_class,
    read_classes,
    write,
)
from repromatrix.sweep.making import is_named
from repromatrix.sweep.recipe_files import ModelRecipe, digest_of

if TYPE_CHECKING:
    from pathlib import Path

IDS, FLOATS = {"ids": [[5, 6]]}, {"normal": [2, 3]}
BASE = ModelRecipe(
    content={
        **CONTENT,
        "config": {"model_type": "llama", "rope": {"theta": 1.0, "kind": "default"}},
        "inputs": {"input_ids": IDS, "pixel_values": FLOATS},
        "digest": "b1",
        "weights": {"lm_head.weight": [4, 4]},
    }
)
RECIPES = {"llama": BASE}


def made(**differs: Any) -> ModelRecipe:  # noqa: ANN401 - parts of a recipe
    content = {**BASE.content, "class": "LlamaForTokenClassification", **differs}
    return made_class(BASE, "4.50.0", content)


def test_a_class_with_the_config_and_inputs_of_its_base_is_a_line_without_them() -> None:
    recipe = made()

    assert (recipe.name, recipe.is_further, BASE.name, BASE.is_further) == (
        *("llama:LlamaForTokenClassification", True),
        *("llama", False),
    )
    entry = entry_of(BASE, recipe.content)
    assert entry == {
        "type": "llama",
        "class": "LlamaForTokenClassification",
        "home": "4.50.0",
        "base": BASE.digest,
        "digest": digest_of(entry),
    }
    assert (recipe.content["config"], recipe.content["inputs"]) == (
        BASE.content["config"],
        BASE.content["inputs"],
    )
    assert "weights" not in recipe.content


def test_what_differs_is_laid_over_the_base(tmp_path: Path) -> None:
    config = {"model_type": "llama", "pad": 3, "rope": {"theta": 2.0, "kind": "default"}}
    recipe = made(config=config, inputs={"input_ids": {"ids": [[7]]}}, targets={"labels": IDS})
    entry = entry_of(BASE, recipe.content)

    assert {key: entry[key] for key in ("config", "without", "inputs", "targets")} == {
        "config": {"pad": 3, "rope": {"theta": 2.0}},
        "without": ["pixel_values"],
        "inputs": {"input_ids": {"ids": [[7]]}},
        "targets": {"labels": IDS},
    }
    write(tmp_path, [recipe, made(**{"class": "LlamaModel"})], RECIPES)
    read = load_classes(tmp_path, RECIPES)
    assert [*read] == ["llama:LlamaForTokenClassification", "llama:LlamaModel"]
    assert read[recipe.name] == recipe
    assert recipe.content["config"] == config


def test_without_a_file_there_are_no_further_classes(tmp_path: Path) -> None:
    assert load_classes(tmp_path, RECIPES) == {}


LINE = json.dumps(entry_of(BASE, made().content))
OTHER = ModelRecipe(content={**BASE.content, "config": {}})


@pytest.mark.parametrize(
    ("line", "recipes", "said"),
    [
        ("{", RECIPES, "the line is damaged"),
        ("[]", RECIPES, "the line holds no object"),
        ('{"type": "llama"}', RECIPES, "'class' is missing or no text"),
        (LINE.replace("Token", "Text"), RECIPES, "its digest does not fit: the line was edited"),
        (LINE, {"llama": OTHER}, "it was made with another recipe of 'llama'"),
        (LINE, {}, "it was made with another recipe of 'llama'"),
    ],
)
def test_a_line_that_does_not_fit_is_told_with_its_number(
    line: str, recipes: dict[str, ModelRecipe], said: str, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_text(line + "\n")

    assert read_classes(tmp_path, recipes)[0] == {}
    with pytest.raises(RunnerError) as raised:
        load_classes(tmp_path, recipes)
    assert str(raised.value.faults[0]).startswith(f"sweep/recipes/{NAME}, line 1: {said}")


@pytest.mark.parametrize(
    ("pattern", "answer"),
    [("bert", True), ("bert:BertModel", True), ("Bert*", True), ("roberta", False)],
)
def test_a_class_is_named_by_its_architecture_too(pattern: str, answer: bool) -> None:  # noqa: FBT001
    assert is_named("bert:BertModel", [pattern]) is answer
