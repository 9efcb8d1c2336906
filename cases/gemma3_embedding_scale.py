# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50"]
#
# [tool.repromatrix]
# title = "Gemma 3 scales token embeddings by a number that is not rounded to the weights' dtype"
# reports = ["https://github.com/huggingface/transformers/pull/37109"]
# area = "embeddings"
# models = ["gemma3"]
# trigger = ["load", "cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# round-scale = "Set the scale of the embedding to its value in the dtype of the weights."
#
# [tool.repromatrix.snippets]
# round-scale = '''
# scale = torch.tensor(config.hidden_size**0.5, dtype=dtype)
# model.get_input_embeddings().embed_scale = scale'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50.0,<4.51.0"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the scale is not that of training"
# where = "gemma3_embedding_scale:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/37109"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/37109"
# says = "Before the change the scale is not rounded to the dtype of the weights."
# when = ["transformers<4.51"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/37109"
# says = "The change rounds it."
# when = ["transformers>=4.51"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""Gemma 3 scales token embeddings by the square root of their size, rounded as in training.

The number was an attribute of Python's `float`, so that a 16-bit embedding was multiplied with the
exact root and rounded once, where training rounds the root first: bf16 makes 55.5 of 55.4256.
"""

import os
import sys

import torch
from transformers import Gemma3TextConfig, Gemma3TextModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HIDDEN = 48
LAYERS = {"hidden_size": HIDDEN, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 16}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 99}
WORKAROUNDS = {"", "round-scale"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Gemma3TextModel(Gemma3TextConfig(**LAYERS, **HEADS)).to(device, dtype).eval()
    table, ids = model.get_input_embeddings(), torch.arange(1, 99, device=device)[None]
    scale = torch.tensor(HIDDEN**0.5, dtype=dtype, device=device)
    if workaround == "round-scale":
        table.embed_scale = scale
    found, wanted = table(ids).float(), (table.weight[ids] * scale).float()
    measured["output_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert model(ids).last_hidden_state.isfinite().all(), "the output is not finite"
    assert measured["output_relative_error"] < 5e-5, "the scale is not that of training"


if __name__ == "__main__":
    main(*sys.argv[1:])
