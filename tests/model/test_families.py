"""A model has one name, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repromatrix.runner.model.families import meant, model_types, nearest, squashed

KNOWN = ("blip-2", "blip2", "gpt2", "qwen2", "qwen2.5-vl", "qwen2_5_vl", "qwen3-vl-moe", "toy")
BOTH = ("qwen2.5-vl", "qwen2_5_vl")
CONTESTED = "glm4"
TYPES = sorted(model_types())


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("qwen3_vl_moe", ("qwen3-vl-moe",)),
        ("Qwen3VLMoeForConditionalGeneration", ("qwen3-vl-moe",)),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", ("qwen3-vl-moe",)),
        ("Qwen2.5-VL", BOTH),
        ("Qwen2_5_VLForConditionalGeneration", BOTH),
        ("Qwen/Qwen2.5-VL-72B-Instruct-AWQ", BOTH),
        ("qwen2_5_vl_text", BOTH),
        ("BLIP2", ("blip-2", "blip2")),
        ("GPT2LMHeadModel", ("gpt2",)),
        ("toy_text", ("toy",)),
        ("XLMRobertaConfig", ("xlm-roberta",)),
        ("ASTModel", ("audio-spectrogram-transformer",)),
        ("meta-llama/Llama-3.1-8B-Instruct", ("llama",)),
        ("meta-llama/Llama-3.2-90B-Vision-Instruct", ("mllama",)),
        ("microsoft/phi-4", ("phi3",)),
        ("Qwen2.5*vl", BOTH),
        ("AutoModelForCausalLM", ()),
        ("qwen9", ()),
        ("", ()),
    ],
)
def test_a_name_means_what_cases_and_transformers_call_it(
    typed: str, names: tuple[str, ...]
) -> None:
    assert meant(typed, KNOWN) == names


@given(
    kind=st.sampled_from(TYPES),
    between=st.sampled_from(["", "-", "_", ".", " "]),
    change=st.sampled_from([str.lower, str.upper, str.title]),
    ending=st.sampled_from(["", "Config", "ForCausalLM", "Processor"]),
)
@example(kind="mlcd_vision_model", between="", change=str.title, ending="")
@example(kind="glm_image", between="", change=str.title, ending="Processor")
def test_every_type_is_meant_by_each_of_its_spellings(
    kind: str, between: str, change: object, ending: str
) -> None:
    assert callable(change)
    parts = kind.replace("-", "_").split("_")
    joined = between.join(map(change, parts)) + ending

    assert {squashed(name) for name in meant(joined, ())} == {squashed(kind)}
    assert meant(joined, [kind, "toy"])[:1] == (kind,)


def test_every_other_name_of_a_type_means_it() -> None:
    names = {name: kind.name for kind in model_types().values() for name in kind.names}

    assert {name: meant(name, ()) for name in names} == {name: (names[name],) for name in names}


def test_checkpoints_that_several_types_share_a_name_with_are_not_guessed() -> None:
    assert meant(f"org/{CONTESTED}-70b-chat", ()) == ()
    assert nearest(f"org/{CONTESTED}-70b-chat", ())[0] == CONTESTED


@pytest.mark.parametrize(
    ("typed", "near"),
    [("qwen2_5_v", "qwen2_5_vl"), ("meta-llama/Llama-9-8B", "llama"), ("google/flan-t5-xl", "t5")],
)
def test_what_is_no_model_is_near_to_one(typed: str, near: str) -> None:
    assert near in nearest(typed, ())
