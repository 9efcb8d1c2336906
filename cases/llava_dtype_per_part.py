# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "from_pretrained with a dict of dtypes ignores the dtype per sub-config since 5.0"
# reports = [
#     "https://github.com/huggingface/transformers/pull/34873",
#     "https://github.com/huggingface/transformers/issues/33997",
#     "https://github.com/huggingface/transformers/pull/42990",
# ]
# area = "loading"
# models = "any"
# shown-with = ["llava"]
# concerns = """
# Every model with sub-configs, such as vision-language models; models with a single config cannot
# meet it: they have no parts to name."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# kind = "change"
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-parts = "Call .to(dtype) on the loaded model and .float() on its vision tower."
#
# [tool.repromatrix.snippets]
# cast-parts = '''
# model.to(dtype)
# vision.float()  # the vision tower'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the vision tower is not in the dtype that was asked for it"
# where = "llava_dtype_per_part:main"
# note = "From 5.0 on the dtype under the empty key holds for all parts, with a warning."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/34873"
# says = "Each part can be loaded in a dtype of its own."
# when = ["transformers>=4.49,<5"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/42990"
# says = "Different dtypes per part fall back to the main dtype."
# when = ["transformers>=5"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""LLaVA loaded with a dict of dtypes must have each part in the dtype that the dict names for it.

In 5.x it does not: a dtype per sub-config was removed on purpose, because the model code would have
to cast between the parts, and the main dtype is used for all of them. `output_relative_error` is
that of the vision tower against the same weights in fp32.
"""

import copy
import os
import sys

import torch
from transformers import LlavaConfig, LlavaForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**LAYERS, "model_type": "llama", "intermediate_size": 32, "vocab_size": 99}
CLIP = {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14}
VISION = {**LAYERS, **CLIP, "intermediate_size": 32}
WORKAROUNDS = {"", "cast-parts"}
measured: dict[str, float] = {}


def load(dtype: torch.dtype) -> LlavaForConditionalGeneration:
    config = LlavaConfig(text_config=TEXT, vision_config=VISION)
    weights = LlavaForConditionalGeneration(config).to(dtype).state_dict()
    wish = {"": dtype, "text_config": dtype, "vision_config": torch.float32}
    return LlavaForConditionalGeneration.from_pretrained(
        None, config=config, state_dict=weights, torch_dtype=wish
    )


def part(model: torch.nn.Module, name: str) -> torch.nn.Module:
    return next(module for path, module in model.named_modules() if path.endswith(name))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = load(dtype).to(device)
    vision, text = part(model, "vision_tower"), part(model, "language_model")
    if workaround == "cast-parts":
        model.to(dtype)
        vision.float()
    pixels = torch.randn(1, 3, 28, 28, device=device)
    exact = copy.deepcopy(vision).float()(pixels).last_hidden_state
    output = vision(pixels.to(vision.dtype)).last_hidden_state
    measured["output_relative_error"] = ((output - exact).norm() / exact.norm()).item()
    assert text.dtype == dtype, "the language model is not in the dtype that was asked for it"
    wanted = torch.float32
    assert vision.dtype == wanted, "the vision tower is not in the dtype that was asked for it"


if __name__ == "__main__":
    main(*sys.argv[1:])
