# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "BART with eager attention in fp16 returns NaN: attention scores overflow"
# reports = []
# found-by = "measurement"
# area = "overflow"
# models = ["bart"]
# trigger = ["load", "cast", "autocast", "forward"]
# symptom = ["nan-or-inf"]
# simulates = """
# The query and key weights of one layer are set so that scores peak between 65504 and 65504 times \
# the root of the head size; all other weights are random."""
#
# [tool.repromatrix.workarounds]
# sdpa = "Load or build the model with attn_implementation=\"sdpa\"."
# scale-queries = "Multiply the query projection by attention.scaling and set that to 1."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# sdpa = 'config = BartConfig(**options, attn_implementation="sdpa")'
# scale-queries = '''
# attention.q_proj.weight.mul_(attention.scaling)  # and its bias, of each attention
# attention.scaling = 1.0'''
# autocast = '''
# encoder.to(torch.float32)
# with torch.autocast(device, dtype):
#     states = encoder(ids)[0]'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53"]
# precisions = ["fp16"]
# workarounds = ["", "autocast"]
# raises = "AssertionError"
# match = "non-finite hidden states"
# where = "bart_eager_scores_fp16:main"
# note = "Under autocast the product of queries and keys is in fp16 too."
# ///
"""BART must return finite hidden states while its scaled attention scores are in the dtype's range.

With eager attention in fp16 it returns NaN since 4.53 (transformers#38108). Until then BART scaled
the queries before the product with the keys; the shared attention function scales the product,
which can overflow first. The overflow is synthetic: query and key weights of one layer are set so
that the product lies between 65504 and 65504 times the root of the head size. No report is known of
a trained checkpoint that reaches that; the case shows the change of order.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import BartConfig, BartModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 128, "max_position_embeddings": 32}
ENCODER = {"encoder_layers": 1, "encoder_attention_heads": 1, "encoder_ffn_dim": 32}
DECODER = {"decoder_layers": 1, "decoder_attention_heads": 1, "decoder_ffn_dim": 32}
WORKAROUNDS = {"", "sdpa", "scale-queries", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    attention = "sdpa" if workaround == "sdpa" else "eager"
    config = BartConfig(**SIZES, **ENCODER, **DECODER, attn_implementation=attention)
    encoder = BartModel(config).eval().to(device).encoder
    attention = encoder.layers[0].self_attn
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight.copy_(42 * torch.eye(128))
    ids = torch.arange(5, 17, device=device)[None]
    states = encoder.layernorm_embedding(encoder.embed_tokens(ids) + encoder.embed_positions(ids))
    product = attention.q_proj(states) @ attention.k_proj(states).mT
    measured["scores"] = product.abs().max().item()
    measured["scaled_scores"] = measured["scores"] * attention.scaling
    assert measured["scaled_scores"] < 65504 < measured["scores"], "scores miss their range"
    autocast = workaround == "autocast"
    encoder.to(torch.float32 if autocast else dtype)
    if workaround == "scale-queries":
        attention.q_proj.weight.mul_(attention.scaling)
        attention.scaling = 1.0
    with torch.autocast(device, dtype) if autocast else nullcontext():
        states = encoder(ids)[0]
    measured["nonfinite_share"] = 1 - states.isfinite().float().mean().item()
    assert measured["nonfinite_share"] == 0, "non-finite hidden states"


if __name__ == "__main__":
    main(*sys.argv[1:])
