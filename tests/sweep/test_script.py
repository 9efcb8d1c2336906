"""A finding as a script: what it holds, and how its config becomes small."""

from __future__ import annotations

import ast
import dataclasses
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from factories import cell, seen
from swept import numbers, record
from tiny_recipes import CONTENT

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.swept.changes import Kind, ProbeChange
from repromatrix.runner.evidence.swept.probes import BUILD, PROBES, ProbeName
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeStatus
from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.model.case import Case, read_script
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.sweep import script as script_search
from repromatrix.sweep.findings import SweepFinding
from repromatrix.sweep.recipe_files import ModelRecipe
from repromatrix.sweep.script import smallest, told_of, with_setting, without
from repromatrix.sweep.script_text import (
    ScriptEnds,
    ScriptForm,
    ScriptSubject,
    Side,
    text_of,
)
from repromatrix.sweep.script_ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from repromatrix.runner.model.observation import Observation
    from repromatrix.sweep.measure import SweepRunner

CONFIG: dict[str, Any] = {"model_type": "x", "wide": 4, "deep": {"wide": 2, "heads": 4}, "rope": 1}
BY_NAME = {probe.name: probe for probe in PROBES} | {
    BUILD: ProbeName(BUILD, "build", "fp32", "It is built.")
}
INPUTS = {
    "input_ids": {"ids": [[5, 6]]},
    "attention_mask": {"ids": [[1, 1]]},
    "pixel_values": {"normal": [1, 3, 8, 8]},
}
RECIPE = ModelRecipe(content={**CONTENT, "inputs": INPUTS, "targets": {"labels": {"ids": [[5]]}}})
ENDS = ScriptEnds(Side("5.0.0", "bf16"), Side("4.50.0", "bf16"))
FAILS, DIFFERS, HOLDS = ProbeStatus.FAILS, ProbeStatus.DIFFERS, ProbeStatus.HOLDS


def told(name: str, status: ProbeStatus) -> ScriptSubject:
    before, after = record("llama", name, HOLDS), record("llama", name, status, "it does not")
    change = ProbeChange(Kind.BROKEN, before, after)
    return ScriptSubject(RECIPE, BY_NAME[name], change, ENDS)


def script(one: ScriptSubject, form: ScriptForm) -> tuple[str, Case]:
    text = text_of(one, CONTENT["config"], form)
    return text, read_script(text, "llama_script.py", "")


@pytest.mark.parametrize("status", [FAILS, DIFFERS])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_is_a_script_that_would_be_a_sound_case(name: str, status: ProbeStatus) -> None:
    form = ScriptForm(output="logits", filled=True, weights={"lm_head.weight": [2, 3]})
    text, case = script(told(name, status), form)
    tree = ast.parse(text)
    long = [line for line in text.splitlines() if len(line) > 100]

    assert [*scrutinise(case, {}, [Precision.FP32], [Device.CPU])] == []
    assert case.block.models == ("llama",)
    assert "It fails on transformers 5.0.0 and passes on 4.50.0." in case.docstring
    assert [one.name for one in tree.body if isinstance(one, ast.FunctionDef)][-1] == "main"
    assert long == []
    assert "repromatrix" not in case.script.code
    assert not {"CLASS", "HALF", "FULL", "PADS", "LACKING", "SPECIAL", "PLAIN", ".OUT"} & {
        *_words(text)
    }


def _words(text: str) -> list[str]:
    return [node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)] + [
        f".{node.attr}" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)
    ]


def test_where_nothing_is_raised_the_probe_is_written_out() -> None:
    text, case = script(told("batch", DIFFERS), ScriptForm(output="logits"))

    assert text.splitlines()[-10:-2] == [
        "    wanted = model(**inputs).logits[:1]",
        "    alone = {name: value[:1] for name, value in inputs.items()}",
        "    found = model(**alone).logits",
        "    assert found.shape == wanted.shape",
        '    measured["logits_relative_error"] = float((found - wanted).norm() / wanted.norm())',
        '    assert measured["logits_relative_error"] < 0.0005',
        "",
        "",
    ]
    assert (case.block.symptom, case.block.trigger) == (("wrong-numbers",), ("forward",))


def test_where_something_is_raised_nothing_is_compared() -> None:
    text, case = script(told("batch", FAILS), ScriptForm())

    assert text.splitlines()[-6:-2] == [
        "    alone = {name: value[:1] for name, value in inputs.items()}",
        "    model(**alone)",
        "",
        "",
    ]
    assert "measured" not in text
    assert case.block.symptom == ("error",)


def test_weights_are_filled_as_the_probes_fill_them() -> None:
    text, _ = script(told("twice", DIFFERS), ScriptForm(filled=True))

    assert "    fill(model)" in text
    assert 'torch.randn([1, 3, 8, 8], generator=generator("pixel_values"))' in text
    assert "wanted = model(**inputs)[0]" in text


def _numbers(kind: Kind, norm: float, shape: Sequence[int] = (2, 3)) -> ScriptSubject:
    before, after = numbers("llama", 1.5), numbers("llama", norm)
    after.summary["logits"]["shape"] = [*shape]
    change = ProbeChange(kind, before, after)
    return ScriptSubject(RECIPE, BY_NAME["outputs-fp32"], change, ENDS)


def test_other_numbers_are_held_against_those_of_the_older_release() -> None:
    one = _numbers(Kind.NUMBERS, 3.0)
    wanted = {"shape": [2, 4], "norm": 1.5, "samples": [0.5, None, 0.25, 1, 2, 3, 4, 5.123456789]}
    text, case = script(one, ScriptForm(output="logits", filled=True, wanted=wanted))

    assert "WANTED = {0: 0.5, 2: 0.25, 3: 1.0, 4: 2.0, 5: 3.0, 6: 4.0, 7: 5.12346}" in text
    assert 'measured["norm_relative_error"] = float(abs(found.norm() / 1.5 - 1))' in text
    assert 'assert measured["logits_relative_error"] < 0.0001' in text
    assert case.block.title == "LlamaForCausalLM: other outputs than on 4.50.0"
    assert case.block.symptom == ("wrong-numbers",)
    assert "It computes what transformers 4.50.0 computes." in case.docstring


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("logits", "    found = model(**inputs).logits"),
        ("gone", '    found = getattr(model(**inputs), "gone", None)'),
    ],
)
def test_other_shapes_are_held_against_those_of_the_older_release(output: str, line: str) -> None:
    form = ScriptForm(output=output, wanted={"shape": [2, 3]})
    text, _ = script(_numbers(Kind.SHAPES, 1.5, (2, 1)), form)

    assert line in text.splitlines()
    assert "list(found.shape) == [2, 3]" in text


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        (
            ScriptForm(weights={"a.weight": [2, 3]}),
            (
                'WEIGHTS = {"a.weight": [2, 3]}',
                '    assert not told["unexpected_keys"], told["unexpected_keys"]',
            ),
        ),
        (ScriptForm(lacking="a.weight"), ('    assert "a.weight" not in told["missing_keys"]',)),
    ],
)
def test_a_checkpoint_of_an_older_release_holds_a_weight_or_lacks_it(
    form: ScriptForm, lines: tuple[str, ...]
) -> None:
    text, _ = script(told("checkpoint", DIFFERS), form)

    assert {*lines} <= {*text.splitlines()}


def finding(kind: Kind, *probes: str) -> SweepFinding:
    pairs = [(record("llama", name, HOLDS), record("llama", name, FAILS)) for name in probes]
    found = tuple(ProbeChange(kind, before, after) for before, after in pairs)
    return SweepFinding(kind=kind, cause="", changes=found)


def test_of_several_probes_the_plainest_is_written_out() -> None:
    one = told_of(
        finding(Kind.BROKEN, "checkpoint", "outputs-bf16"), {"llama": RECIPE}, ("4.50.0", "5.0.0")
    )

    assert one.probe.name == "outputs-bf16"
    assert str(one.ends) == "fails on transformers 5.0.0 and passes on 4.50.0"


def test_what_is_fixed_fails_on_the_older_release() -> None:
    one = told_of(finding(Kind.FIXED, "tied"), {"llama": RECIPE}, ("4.50.0", "5.0.0"))

    assert str(one.ends) == "fails on transformers 4.50.0 and passes on 5.0.0"


def test_what_is_bad_in_16_bit_is_held_against_fp32() -> None:
    one = record("llama", "raw-bf16", FAILS)
    bad = SweepFinding(kind=Kind.BROKEN, cause="", changes=(ProbeChange(Kind.BROKEN, one, one),))

    ends = told_of(bad, {"llama": RECIPE}, ("4.50.0", "5.0.0")).ends
    assert str(ends) == "fails on transformers 5.0.0 in bf16 and passes in fp32"


def test_what_fails_on_both_releases_has_no_script() -> None:
    with pytest.raises(RunnerError, match=r"each in its way.*Give --against a release"):
        told_of(finding(Kind.OTHER, "tied"), {"llama": RECIPE}, ("4.50.0", "5.0.0"))


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


def test_fields_that_cannot_go_together_are_found_in_few_rounds() -> None:
    config = {"model_type": "x"} | {f"field{number}": number for number in range(60)}
    needed = [{"field7", "field40"}, {"field41", "field8"}, {"field0", "field59"}]
    asked: list[int] = []

    def shows(configs: Sequence[Mapping[str, Any]]) -> list[bool]:
        asked.append(len(configs))
        return [all(pair & {*config} for pair in needed) for config in configs]

    assert {*smallest(config, shows)} == {"model_type", "field40", "field41", "field59"}
    assert asked == [60, 1, 8, 7, 8, 1, 8, 2]


def test_a_config_keeps_what_is_not_taken_out() -> None:
    left = without(CONFIG, [("deep", "wide"), ("rope",), ("deep", "nothing")])

    assert left == {"model_type": "x", "wide": 4, "deep": {"heads": 4}}
    assert CONFIG["deep"] == {"wide": 2, "heads": 4}


def test_a_probe_of_a_further_class_answers_under_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = {**RECIPE.content, "class": "LlamaForTokenClassification", "base": "0123456789abcdef"}
    recipe = ModelRecipe(content=content)
    answer = {"built": True, "probes": [{"probe": "outputs-fp32", "status": "holds"}]}

    def ran(cases: Mapping[str, Case], _runner: object, side: Side) -> dict[str, Observation]:
        rows = {name: seen(at=cell(side.release)._replace(case=name)) for name in cases}
        return {
            name: dataclasses.replace(row, output=json.dumps(answer)) for name, row in rows.items()
        }

    monkeypatch.setattr(script_search, "_run", ran)
    [found] = script_search._probed(
        [CONFIG], recipe, BY_NAME["outputs-fp32"], cast("SweepRunner", None), "5.23.0"
    )

    assert found is not None
    assert found.key == ProbeKey("llama:LlamaForTokenClassification", "outputs-fp32")


def test_a_setting_that_a_probe_names_is_put_into_the_config() -> None:
    config = {"model_type": "x", "rotary_pct": 0.25, "text_config": {"scaled": False}}
    recipe = ModelRecipe(content={**CONTENT, "config": config})

    def changed(why: str) -> dict[str, Any]:
        return cast("dict[str, Any]", with_setting(recipe, why).content["config"])

    assert changed("not with rotary_pct=0.5, scaled=True") == {**config, "rotary_pct": 0.5}
    assert changed("not with scaled=True") == {**config, "text_config": {"scaled": True}}
    assert changed("not with bidirectional=True") == {**config, "bidirectional": True}
    assert changed("relative error 0.5") == config
