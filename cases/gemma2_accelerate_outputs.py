# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate"]
#
# [tool.repromatrix]
# title = "Gemma 2 with accelerate in bf16: 'HybridCache' object has no attribute 'float'"
# reports = ["https://github.com/huggingface/transformers/issues/36938"]
# area = "kv-cache"
# models = ["gemma2"]
# trigger = ["load", "cast", "autocast"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cache-off = "Set config.use_cache = False."
# fp32-weights = "Keep the weights in fp32 and let the mixed precision do the rest."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# note = "The same error as in the Trainer, without a Trainer."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36938"
# says = "Going from 4.49 to 4.50 breaks it (reported for PaliGemma 2, which wraps Gemma 2)."
# when = ["transformers>=4.49,<4.50"]
# outcome = "passes"
# ///
"""A 16-bit Gemma 2 that Accelerate prepared for mixed precision must return its outputs in fp32.

Accelerate calls .float() on every output with a 16-bit `dtype`. Gemma 2 returns its HybridCache,
which in 4.50 still had the attribute but, no longer a module, not the method. Autocast is off
here, so that fp16 weights compute in fp16 where Accelerate knows bf16 only.
"""

import os
import sys

import torch
from accelerate import Accelerator, AutocastKwargs
from transformers import Gemma2Config, Gemma2ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
WORKAROUNDS = {"", "cache-off", "fp32-weights"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    on_cpu = os.environ.get("REPRO_DEVICE", "cpu") == "cpu"
    mixed, autocast = precision != "fp32", workaround == "fp32-weights"
    if autocast and on_cpu and precision == "fp16":
        sys.exit(125)  # Accelerate has no fp16 autocast on a CPU
    model = Gemma2ForCausalLM(Gemma2Config(**SIZES, **HEADS, use_cache=workaround != "cache-off"))
    if not autocast:
        model.to(DTYPES[precision])
    accelerator = Accelerator(
        cpu=on_cpu,
        mixed_precision=("bf16" if on_cpu else precision) if mixed else "no",
        kwargs_handlers=[AutocastKwargs(enabled=autocast)],
    )
    model = accelerator.prepare_model(model.eval(), evaluation_mode=True)
    logits = model(input_ids=torch.randint(5, 90, (2, 8), device=accelerator.device)).logits
    assert logits.dtype == torch.float32, "logits are not in fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
