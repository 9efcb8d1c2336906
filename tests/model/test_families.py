"""A model has one name, however it is written."""

from __future__ import annotations

import pytest

from repromatrix.runner.model.families import spelled

KNOWN = ("gpt2", "qwen2", "qwen2.5-vl", "qwen3-vl-moe", "xlm-roberta")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("qwen3_vl_moe", "qwen3-vl-moe"),
        ("Qwen3VLMoeForConditionalGeneration", "qwen3-vl-moe"),
        ("Qwen2.5-VL", "qwen2.5-vl"),
        ("qwen2_5_vl", "qwen2.5-vl"),
        ("GPT2LMHeadModel", "gpt2"),
        ("XLMRobertaConfig", "xlm-roberta"),
        ("Qwen2Model", "qwen2"),
        ("Qwen*_VL", "qwen*-vl"),
        ("qwen9", "qwen9"),
    ],
)
def test_any_spelling_means_the_known_name(typed: str, meant: str) -> None:
    assert spelled(typed, KNOWN) == meant
