# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.20"]
#
# [tool.repromatrix]
# title = "Unlimited-OCR generates with a static cache under autocast: index_copy_ dtype mismatch"
# reports = []
# found-by = "sweep"
# area = "kv-cache"
# models = ["unlimited_ocr"]
# trigger = ["autocast", "static-cache", "generate"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-weights = "Cast the model to 16 bit instead of using autocast."
# dynamic-cache = "Generate with the default, dynamic cache."
#
# [tool.repromatrix.snippets]
# cast-weights = "model.to(dtype)  # and no torch.autocast"
# dynamic-cache = "made = model.generate(ids, cache_implementation=None)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.20.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "index_copy_(): self and source expected to have the same dtype, but got (self) Float and (source) BFloat16",
#     "index_copy_(): self and source expected to have the same dtype, but got (self) Float and (source) Half",
# ]
# where = "transformers.models.unlimited_ocr.modeling_unlimited_ocr:UnlimitedOcrStaticReferenceSlidingWindowLayer.update"
# ///
"""Unlimited-OCR with fp32 weights must generate under autocast with a static cache.

`UnlimitedOcrStaticReferenceSlidingWindowLayer` allocates keys and values in the dtype of the first
keys, which the rotary embedding has upcast to fp32, while autocast makes the values in 16 bit.
Its `update` has an `index_copy_` of its own, without a cast, beside that of the shared static
cache.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import UnlimitedOcrConfig, UnlimitedOcrForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
EXPERTS = {"n_routed_experts": 4, "moe_intermediate_size": 32, "mlp_layer_types": ["dense"]}
TEXT = {**SIZES, **EXPERTS, "vocab_size": 99, "sliding_window": 8, "num_attention_heads": 4}
TEXT |= {"num_key_value_heads": 4, "head_dim": 8, "bos_token_id": 0, "eos_token_id": 1}
ENCODER = {**SIZES, "num_attention_heads": 4, "image_size": 56, "patch_size": 14}
SAM = {**ENCODER, "image_size": 64, "patch_size": 16, "mlp_dim": 32, "output_channels": 32}
VISION = {"encoder_config": ENCODER, "sam_config": {**SAM, "downsample_channels": [8, 16]}}
WORKAROUNDS = {"", "cast-weights", "dynamic-cache"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = UnlimitedOcrConfig(text_config=TEXT, vision_config=VISION, image_token_id=98)
    model = UnlimitedOcrForConditionalGeneration(config).to(device).eval()
    if workaround == "cast-weights":
        model.to(dtype)
    model.generation_config.disable_compile = True
    mixed = precision != "fp32" and workaround != "cast-weights"
    cache = None if workaround == "dynamic-cache" else "static"
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        made = model.generate(
            ids, cache_implementation=cache, min_new_tokens=3, max_new_tokens=3, do_sample=False
        )
    assert made.shape == (1, 11), "not all tokens were generated"


if __name__ == "__main__":
    main(*sys.argv[1:])
