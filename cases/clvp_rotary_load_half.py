# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "CLVP loaded in bf16 or fp16 fails: rotary embeddings in fp32 upcast the queries"
# reports = []
# found-by = "sweep"
# area = "rotary-embedding"
# models = ["clvp"]
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
# autocast = "Load in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-again = "model.to(dtype)  # after from_pretrained"
# autocast = '''
# model = ClvpModelForConditionalGeneration.from_pretrained(name, torch_dtype=torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model.eval()(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
#     "mat1 and mat2 must have the same dtype, but got Float and Half",
# ]
# where = "transformers.models.clvp.modeling_clvp:ClvpSelfAttention.forward"
# ///
"""CLVP loaded in bf16 or fp16 must run a forward pass.

`from_pretrained` leaves the buffer `inv_freq` of `ClvpRotaryPositionalEmbedding` in fp32.
`ClvpSelfAttention.forward` multiplies queries, keys and values with the cosines and sines of it
without a cast, computes the attention in fp32, and gives that to an output projection in 16 bit.
A loaded model that is cast as a whole computes, as `.to(dtype)` casts the buffer.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import ClvpConfig, ClvpModelForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 99}
SIZES |= {"bos_token_id": 97, "eos_token_id": 98}
ENCODER = {**SIZES, "intermediate_size": 64, "projection_dim": 64}
DECODER = {**SIZES, "num_mel_attn_blocks": 1, "feature_size": 8, "max_position_embeddings": 64}
DECODER |= {"max_text_tokens": 32}
WORKAROUNDS = {"", "cast-again", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    load_dtype = torch.float32 if mixed else dtype
    parts = {"text_config": ENCODER, "speech_config": ENCODER, "decoder_config": DECODER}
    config = ClvpConfig(**parts, projection_dim=64)
    with tempfile.TemporaryDirectory() as folder:
        ClvpModelForConditionalGeneration(config).save_pretrained(folder)
        model = ClvpModelForConditionalGeneration.from_pretrained(folder, torch_dtype=load_dtype)
    if workaround == "cast-again":
        model.to(dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    features = torch.randn(1, 8, 16, device=device, dtype=load_dtype)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        found = model.to(device).eval()(input_ids=ids, input_features=features)
    assert found.text_embeds.isfinite().all(), "non-finite embeddings"


if __name__ == "__main__":
    main(*sys.argv[1:])
