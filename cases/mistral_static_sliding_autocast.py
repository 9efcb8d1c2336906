# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Sliding-window static cache under autocast fails in generate: Index put dtypes"
# reports = []
# found-by = "measurement"
# area = "kv-cache"
# models = "any"
# shown-with = ["mistral"]
# concerns = """
# Every decoder with sliding-window attention that generates with a static cache; full attention
# raises in index_copy_ instead."""
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
# match = "Index put requires the source and destination dtypes match, got Float for the"
# where = [
#     "transformers.cache_utils:SlidingWindowLayer.update",
#     "transformers.cache_utils:StaticSlidingWindowLayer.update",
# ]
# ///
"""A sliding-window model with fp32 weights must generate under autocast with a static cache.

Same cause as llama_static_cache_autocast, kept because people search for its message: since 4.56
the cache is allocated in the dtype of the first keys, which the rotary embedding upcasts to fp32.
A prompt longer than the window is copied with a cast; the values of the next token, in 16 bit under
autocast, are written into the full window by index, which does not cast.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import MistralConfig, MistralForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-weights", "dynamic-cache"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = (
        MistralForCausalLM(
            MistralConfig(**SIZES, num_attention_heads=4, num_key_value_heads=4, sliding_window=4)
        )
        .to(device)
        .eval()
    )
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
