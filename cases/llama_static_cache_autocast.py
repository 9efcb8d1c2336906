# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "generate with a static cache under autocast fails in index_copy_: dtype mismatch"
# reports = []
# found-by = "measurement"
# area = "kv-cache"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every decoder with rotary embeddings that generates with a static cache; models without a static
# cache, such as encoders, cannot meet it."""
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
# when = ["transformers>=4.56"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "index_copy_(): self and source expected to have the same dtype, but got (self) Float"
# where = "transformers.cache_utils:StaticLayer.update"
# note = "Models with sliding windows fail in the same place with another message."
# ///
"""A model with fp32 weights must generate under autocast with a static cache as with a dynamic one.

Under autocast the projections return 16 bit, but the rotary embedding upcasts the keys to fp32. The
static cache used to be allocated in the dtype of the model and to cast its inputs; since 4.56 it is
allocated in the dtype of the first keys, for the values as well, and copies without a cast.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-weights", "dynamic-cache"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, num_attention_heads=4)).to(device).eval()
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
