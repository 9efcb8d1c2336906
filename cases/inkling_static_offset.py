# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.14"]
#
# [tool.repromatrix]
# title = "Inkling computes other logits with a static cache: its query positions are one too far"
# reports = []
# found-by = "sweep"
# area = "kv-cache"
# models = ["inkling"]
# trigger = ["generate", "static-cache"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# copy-offset = "Let get_query_offset of the cache return a copy of its tensor."
#
# [tool.repromatrix.snippets]
# copy-offset = '''
# given = cache.get_query_offset
# cache.get_query_offset = lambda *layer: torch.as_tensor(given(*layer)).clone()'''
#
# [[tool.repromatrix.fails]]
# title = "Inkling 5.14.0 fails with a static cache: The size of tensor a must match the size of tensor b"
# when = ["transformers>=5.14.0,<5.14.1"]
# workarounds = ["*"]
# raises = "RuntimeError"
# match = ") must match the size of tensor b"
# where = "transformers.integrations.sdpa_attention:create_position_bias_mask"
# note = "Another bug: 5.14.0 fails with every static cache."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.14.1"]
# raises = "AssertionError"
# match = "a static cache changes the logits"
# where = "inkling_static_offset:main"
# ///
"""Inkling must give the next token the logits that it has without a cache.

InklingAttention asks the cache for the offset of its queries before it adds the new keys, and reads
it afterwards. StaticLayer gives away the tensor in which it counts, not its value, and update
counts it up in place: each relative position is then too large by the number of new tokens. The
first step is right, as the layer is empty then, and a dynamic cache counts in a number.
"""

import os
import sys

import torch
from transformers import InklingForCausalLM, InklingTextConfig, StaticCache

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 32}
SIZES |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "d_rel": 8}
SIZES |= {"head_dim": 16, "swa_head_dim": 16, "swa_num_attention_heads": 2, "rel_extent": 64}
SIZES |= {"swa_num_key_value_heads": 2, "n_routed_experts": 4, "num_experts_per_tok": 2}
LAYERS = {"layer_types": ["hybrid"] * 2, "mlp_layer_types": ["dense"] * 2}
WORKAROUNDS = {"", "copy-offset"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = InklingForCausalLM(InklingTextConfig(**SIZES, **LAYERS)).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 13), device=device)
    cache = StaticCache(config=model.config, max_cache_len=16)
    if workaround == "copy-offset":
        given = cache.get_query_offset
        cache.get_query_offset = lambda *layer: torch.as_tensor(given(*layer)).clone()
    model(ids[:, :-1], past_key_values=cache)
    found = model(ids[:, -1:], past_key_values=cache).logits[:, -1].double()
    exact = model(ids, use_cache=False).logits[:, -1].double()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.06, "a static cache changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
