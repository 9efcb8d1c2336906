# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53"]
#
# [tool.repromatrix]
# title = "Gemma 3n gives other logits with use_cache=False: keys and values are not shared"
# reports = []
# found-by = "sweep"
# area = "kv-cache"
# models = ["gemma3n"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# empty-cache = "Pass an empty DynamicCache as past_key_values."
#
# [tool.repromatrix.snippets]
# empty-cache = "outputs = model(ids, past_key_values=DynamicCache())"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53.0,<5.6.0"]
# raises = "AssertionError"
# match = "without a cache the logits are others"
# where = "gemma3n_shared_kv_uncached:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45489"
# ///
"""Gemma 3n must give the same logits for a whole text with and without a cache.

Until 5.5 the layers that take over keys and values of an earlier layer found them in the cache:
without one, as in training or with use_cache=False, Gemma3nTextAttention.forward computed them with
projections of their own, which a trained model never used. Since 5.6 keys and values are shared
outside the cache, and these projections are gone.
"""

import os
import sys

import torch
from transformers import DynamicCache, Gemma3nForCausalLM, Gemma3nTextConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4}
SMALL = {"vocab_size_per_layer_input": 99, "hidden_size_per_layer_input": 8, "laurel_rank": 4}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
LAYERS = {"num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.0] * 4}
TYPES = ["sliding_attention", "full_attention"] * 2
WORKAROUNDS = {"", "empty-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Gemma3nTextConfig(
        **SIZES, **SMALL, **HEADS, **LAYERS, layer_types=TYPES, initializer_range=0.2
    )
    model = Gemma3nForCausalLM(config).to(device, dtype).eval()
    ids = torch.randint(5, 90, (1, 12), device=device)
    wanted = model(ids, use_cache=True).logits.double()
    if workaround == "empty-cache":
        found = model(ids, past_key_values=DynamicCache()).logits.double()
    else:
        found = model(ids, use_cache=False).logits.double()
    measured["tokens_changed"] = (wanted.argmax(-1) != found.argmax(-1)).double().mean().item()
    measured["logits_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["logits_relative_error"] < 0.02, "without a cache the logits are others"


if __name__ == "__main__":
    main(*sys.argv[1:])
