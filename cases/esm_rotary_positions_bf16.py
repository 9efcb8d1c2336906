# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "ESM-2 cast to bf16 gives wrong embeddings for proteins longer than 256 residues"
# reports = []
# found-by = "measurement"
# area = "rotary-embedding"
# models = ["esm"]
# trigger = ["cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# frequencies-fp32 = """
# Call .float() on every rotary embedding after the cast: positions are exact then, inv_freq \
# stays rounded."""
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# frequencies-fp32 = '''
# for name, module in model.named_modules():
#     if name.endswith(("rotary_embeddings", "rotary_emb")):
#         module.float()'''
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.6"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "far from the states of fp32"
# where = "esm_rotary_positions_bf16:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/44145"
# note = """
# Silent. fp16 represents integers up to 2048 exactly and passes. From 5.6 on positions and angles \
# are in fp32; the output_relative_error of 0.01 that remains is that of 16-bit activations."""
# ///
"""ESM-2 in bf16 must embed a long protein as it does in fp32, up to the rounding of bf16.

Until 5.5 the rotary embedding computed positions in the dtype of `inv_freq`, a buffer that
`.to(dtype)` casts. bf16 represents every second integer from 256 on and every fourth from 512 on,
so neighbouring residues share a rotation. 5.6 computes positions and angles in fp32
(transformers#44145). A model loaded in bf16 with `from_pretrained` keeps `inv_freq` in fp32.
"""

import os
import sys
from contextlib import nullcontext
from copy import deepcopy

import torch
from transformers import EsmConfig, EsmModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 33, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
TOKENS = {"pad_token_id": 1, "mask_token_id": 32, "token_dropout": False}
ROTARY = {"position_embedding_type": "rotary", "num_attention_heads": 2, "initializer_range": 0.4}
WORKAROUNDS = {"", "frequencies-fp32", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = EsmConfig(**SIZES, **TOKENS, **ROTARY)
    model = EsmModel(config, add_pooling_layer=False).eval().to(device)
    protein = torch.randint(4, 24, (1, 600), device=device)
    autocast = workaround == "autocast"
    model.to(torch.float32 if autocast else dtype)
    # A copy, for a model keeps cos and sin; with these weights and inv_freq, so rounded alike.
    exact = deepcopy(model).float()(protein)[0]
    for name, module in model.named_modules():
        if name.endswith(("rotary_embeddings", "rotary_emb")) and workaround == "frequencies-fp32":
            module.float()
    with torch.autocast(device, dtype) if autocast else nullcontext():
        states = model(protein)[0].float()
    measured["output_relative_error"] = ((states - exact).norm() / exact.norm()).item()
    assert measured["output_relative_error"] < 0.08, "far from the states of fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
