"""A finding as a script: what it holds, and how its config becomes small."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tiny_recipes import CONTENT

from repromatrix.runner.model.case import read_script
from repromatrix.runner.sweep.child.probes.names import PROBES
from repromatrix.runner.sweep.recipes import ModelRecipe
from repromatrix.runner.sweep.script import WAYS, Sides, _text, smallest, without

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIG: dict[str, Any] = {"model_type": "x", "wide": 4, "deep": {"wide": 2, "heads": 4}, "rope": 1}
BY_NAME = {probe.name: probe for probe in PROBES}


def test_fields_are_taken_out_alone_then_together() -> None:
    asked: list[int] = []

    def shows(configs: Sequence[Mapping[str, Any]]) -> list[bool]:
        asked.append(len(configs))
        return ["heads" in config.get("deep", {}) for config in configs]

    assert smallest(CONFIG, shows) == {"model_type": "x", "deep": {"heads": 4}}
    assert asked == [5, 1]


def test_fields_that_cannot_go_together_are_tried_one_after_another() -> None:
    def shows(configs: Sequence[Mapping[str, Any]]) -> list[bool]:
        return ["wide" in config or "rope" in config for config in configs]

    assert smallest(CONFIG, shows) == {"model_type": "x", "rope": 1}


def test_a_config_keeps_what_is_not_taken_out() -> None:
    left = without(CONFIG, [("deep", "wide"), ("rope",), ("deep", "nothing")])

    assert left == {"model_type": "x", "wide": 4, "deep": {"heads": 4}}
    assert CONFIG["deep"] == {"wide": 2, "heads": 4}


def test_every_way_is_a_script_in_the_contract_of_cases() -> None:
    for name in WAYS:
        recipe = ModelRecipe(content=CONTENT)
        text = _text(recipe, CONTENT["config"], BY_NAME[name], "E: 'x'", Sides("5.0.0", "4.50.0"))
        case = read_script(text, "script.py", "")
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]

        assert (case.block.title, case.block.models) == ("LlamaForCausalLM: E: 'x'", ("llama",))
        assert [function.name for function in functions] == ["main"]
        assert "It fails on transformers 5.0.0 and passes on 4.50.0." in case.docstring
        assert len(text.splitlines()) <= 60
        assert "repromatrix." not in case.script.code
