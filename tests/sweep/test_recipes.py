"""Recipes are frozen: what was edited or is damaged is told with its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tiny_recipes import CONTENT

from repromatrix.runner.errors import RunnerError
from repromatrix.sweep.making import needless_hints
from repromatrix.sweep.recipe_files import as_text, digest_of, load_recipes, write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_recipe_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path, CONTENT)
    (recipe,) = load_recipes(tmp_path).values()

    assert (recipe.type, recipe.class_name, recipe.home) == ("llama", "LlamaForCausalLM", "4.49.0")
    assert recipe.content == {**CONTENT, "digest": recipe.digest}


def test_the_digest_states_the_content_in_any_order() -> None:
    assert digest_of(CONTENT) == digest_of(dict(reversed(CONTENT.items())))
    assert digest_of(CONTENT) != digest_of({**CONTENT, "config": {"model_type": "llama"}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "sweep/recipes/llama.json: the file is damaged"),
        ("[]", "sweep/recipes/llama.json: the file holds no object"),
        (json.dumps({**CONTENT, "home": 4}), "'home' is missing or of another kind"),
        (json.dumps({**CONTENT, "type": "gpt2"}), "it is of 'gpt2'. Call the file gpt2.json."),
        (as_text(CONTENT).replace("32", "64"), "its digest does not fit: the file was edited"),
    ],
)
def test_a_recipe_that_does_not_fit_is_told_with_its_file(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "llama.json").write_text(text)

    with pytest.raises(RunnerError) as raised:
        load_recipes(tmp_path)

    assert said in str(raised.value.faults[0])


def test_a_hint_without_a_recipe_or_a_reason_is_refused() -> None:
    hints: dict[str, dict[str, object]] = {
        "llama": {"reason": "wants it", "config": {}},
        "gone": {"reason": "x"},
        "odd": {"a": 1},
    }

    assert [str(fault) for fault in needless_hints(hints, {"llama", "odd"})] == [
        "sweep/recipes/hints.toml: gone: there is no recipe of this name. Take the hint out.",
        "sweep/recipes/hints.toml: odd: it gives no reason. Say what the name of a field hides.",
        (
            "sweep/recipes/hints.toml: odd: 'a' is no key of a hint. "
            "Keys: class, config, inputs, reason, tokens."
        ),
    ]
