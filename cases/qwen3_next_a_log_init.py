# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.57"]
#
# [tool.repromatrix]
# title = "Qwen3-Next built in bf16 or fp16 starts with A_log = -inf in some heads"
# reports = ["https://github.com/huggingface/transformers/issues/47831"]
# area = "loading"
# models = ["qwen3-next"]
# trigger = ["load"]
# symptom = ["nan-or-inf"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-after = "Build the model in fp32 and call .to(dtype) on it."
# draw-again = "Draw A in fp32 after building the model and copy its logarithm to A_log."
#
# [tool.repromatrix.snippets]
# cast-after = '''
# model = AutoModel.from_config(config, torch_dtype=torch.float32)
# # and then model.to(dtype)'''
# draw-again = '''
# a_log = layer.linear_attn.A_log  # of each layer
# a_log.data.copy_(torch.empty(a_log.shape).uniform_(0, 16).log())'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.16"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "some heads start with an infinite A_log"
# where = "qwen3_next_a_log_init:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47944"
# note = "Reported for Qwen3.5 in bfloat16; in float16 it is about eight times as rare."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47831"
# says = "On 5.14.0 some heads of a model built in bfloat16 have an A_log of -inf."
# when = ["transformers==5.14.0"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A_log of a new Qwen3-Next must be finite in every head.

Until 5.15 A was drawn from 0 to 16 in 16 bit, where one draw in a few hundred is exactly 0, and its
logarithm is -inf. Such a head has neither decay nor gradient and is never trained;
`nonfinite_share` is the share of these heads.
"""

import os
import sys

import torch
from transformers import AutoModel, Qwen3NextConfig, Qwen3NextModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8}
DENSE = {
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 99,
    "mlp_only_layers": [0],
}
KEYS = {"linear_num_key_heads": 1, "linear_key_head_dim": 2}
VALUES = {"linear_num_value_heads": 16384, "linear_value_head_dim": 1}
WORKAROUNDS = {"", "cast-after", "draw-again"}
measured: dict[str, float] = {}


def build(device: str, dtype: torch.dtype) -> Qwen3NextModel:
    config = Qwen3NextConfig(**LAYERS, **DENSE, **KEYS, **VALUES, layer_types=["linear_attention"])
    with torch.device(device):
        return AutoModel.from_config(config, torch_dtype=dtype)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = build(device, torch.float32 if workaround == "cast-after" else dtype).to(dtype)
    a_log = model.layers[0].linear_attn.A_log
    if workaround == "draw-again":
        a_log.data.copy_(torch.empty(a_log.shape, device=device).uniform_(0, 16).log())
    measured["nonfinite_share"] = (~a_log.isfinite()).float().mean().item()
    assert measured["nonfinite_share"] == 0, "some heads start with an infinite A_log"


if __name__ == "__main__":
    main(*sys.argv[1:])
