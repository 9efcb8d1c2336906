# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers", "accelerate"]
#
# [tool.repromatrix]
# title = "PaliGemma 2 evaluation fails: 'HybridCache' object has no attribute 'float'"
# reports = ["https://github.com/huggingface/transformers/issues/36938"]
# area = "kv-cache"
# models = ["paligemma2", "gemma2"]
# trigger = ["load", "cast", "trainer"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# outer-cache-off = "Set use_cache to False in model.config and in model.generation_config."
# text-cache-off = "Set use_cache to False in model.config.text_config of the built model."
# decoder-cache-off = "Set use_cache to False in the config of the inner language model."
# no-mixed-precision = "Cast the weights and turn the Trainer's mixed precision off."
#
# [tool.repromatrix.snippets]
# outer-cache-off = "model.config.use_cache = model.generation_config.use_cache = False"
# text-cache-off = "model.config.text_config.use_cache = False"
# decoder-cache-off = '''
# for name, module in model.named_modules():
#     if name.endswith("language_model"):
#         module.config.use_cache = False'''
# no-mixed-precision = "arguments = TrainingArguments(folder, bf16=False)  # with 16-bit weights"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/37044"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# workarounds = ["outer-cache-off", "text-cache-off"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/37044"
# note = "The language model is built with a copy of text_config and reads only that."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36938"
# says = "Going from 4.49 to 4.50 breaks it."
# when = ["transformers>=4.49,<4.50"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36938"
# says = "On 4.50.0 the evaluation fails in bf16."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36938"
# says = "Turning the cache off in the model's config and in its generation config avoids it."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "outer-cache-off"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36938"
# says = "It is fixed on main, so every release after the 4.50 line is good."
# when = ["transformers>=4.51"]
# outcome = "passes"
# ///
"""Trainer.evaluate must return a finite loss for a 16-bit PaliGemma 2 in mixed precision.

Beside the logits the model returns a HybridCache, and accelerate calls .float() on every output
with a 16-bit `dtype`, as this cache has. While caches were modules they had the method too; 4.50
made them plain objects, and 4.51 renamed the attribute.
On a CPU accelerate has bf16 mixed precision only: fp16 weights run in that, with autocast off.
"""

import math
import os
import sys

import torch
from accelerate import AutocastKwargs
from transformers import (
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ON_CPU = os.environ.get("REPRO_DEVICE", "cpu") == "cpu"
TEXT = {"model_type": "gemma2", "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2}
VISION = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 1, "image_size": 32}
IMAGE_TOKEN = 98
measured = {}


def main(precision: str, workaround: str | None = None) -> None:
    """Evaluate on one picture of four tokens with its text."""
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    rest = {"image_token_index": IMAGE_TOKEN, "projection_dim": 32}
    config = PaliGemmaConfig(text_config=TEXT, vision_config=VISION, **rest)
    model = PaliGemmaForConditionalGeneration(config).to(DTYPES[precision])
    decoder = next(m for name, m in model.named_modules() if name.endswith("language_model"))
    configs = {
        "outer-cache-off": [model.config, model.generation_config],
        "text-cache-off": [model.config.text_config],
        "decoder-cache-off": [decoder.config],
        "no-mixed-precision": [],
        None: [],
    }
    for config in configs[workaround]:
        config.use_cache = False

    ids = torch.tensor([IMAGE_TOKEN] * 4 + [2, 5, 6, 1])
    row = {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}
    row |= {"token_type_ids": torch.zeros_like(ids), "pixel_values": torch.randn(3, 32, 32)}
    mixed = precision != "fp32" and workaround != "no-mixed-precision"
    flags = {"use_cpu": ON_CPU, "report_to": "none", "disable_tqdm": True}
    flags["bf16" if ON_CPU or precision == "bf16" else "fp16"] = mixed
    trainer = Trainer(model, TrainingArguments("out", **flags), eval_dataset=[row])
    if ON_CPU:
        trainer.accelerator.autocast_handler = AutocastKwargs(enabled=precision != "fp16")
    measured["eval_loss"] = trainer.evaluate()["eval_loss"]
    assert math.isfinite(measured["eval_loss"]), "the evaluation's loss is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
