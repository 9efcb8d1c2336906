# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "OPT scales its attention twice: accuracy of opt-125m drops to zero"
# reports = ["https://github.com/huggingface/transformers/issues/38277"]
# area = "attention"
# models = ["opt"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# scale-one = "Set scaling of every attention layer to 1 and multiply the query projection by it."
#
# [tool.repromatrix.snippets]
# scale-one = '''
# for value in (layer.q_proj.weight, layer.q_proj.bias):
#     value.mul_(layer.scaling)
# layer.scaling = 1.0'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.52,<4.52.4"]
# raises = "AssertionError"
# match = "attention differs from its definition"
# where = "opt_query_scaled_twice:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38290"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<4.52"]
# workarounds = ["scale-one"]
# raises = "AssertionError"
# match = "attention differs from its definition"
# where = "opt_query_scaled_twice:main"
# note = "Before 4.52 the default attention, SDPA, scales by itself, whatever the layer says."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/38277"
# says = "4.52.2 loses the accuracy that 4.51.3 had."
# when = ["transformers>=4.52,<4.52.4"]
# outcome = "fails"
# ///
"""The attention of OPT divides scores by the square root of a head's size once.

`OPTAttention.forward` multiplied the queries by `scaling` and passed it on to the attention
function as well, which multiplied by it again.
"""

import os
import sys

import torch
from transformers import OPTConfig, OPTModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "scale-one"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = OPTModel(OPTConfig(**SIZES, num_attention_heads=2, word_embed_proj_dim=32)).eval()
    layer = model.decoder.layers[0].self_attn
    for one in (layer.q_proj, layer.k_proj):
        torch.nn.init.normal_(one.weight, std=0.6)
    states = torch.randn(1, 6, 32)
    with torch.no_grad():
        heads = [
            one(states).view(1, 6, 2, 16).transpose(1, 2)
            for one in (layer.q_proj, layer.k_proj, layer.v_proj)
        ]
        wanted = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        wanted = layer.out_proj(wanted.transpose(1, 2).reshape(1, 6, 32))
        if workaround == "scale-one":
            for value in (layer.q_proj.weight, layer.q_proj.bias):
                value.mul_(layer.scaling)
            layer.scaling = 1.0
        mask = torch.full((6, 6), torch.finfo(dtype).min, dtype=dtype, device=device).triu(1)
        layer.to(device, dtype)
        found = layer(states.to(device, dtype), attention_mask=mask[None, None])[0].float().cpu()
    measured["output_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["output_relative_error"] < 0.036, "attention differs from its definition"


if __name__ == "__main__":
    main(*sys.argv[1:])
