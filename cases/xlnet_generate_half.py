# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "XLNet generate fails in bf16 and fp16: target_mapping is built in fp32"
# reports = []
# found-by = "measurement"
# area = "generation"
# models = ["xlnet"]
# trigger = ["load", "cast", "generate"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and generate under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# # with the weights in fp32
# with torch.autocast(device, dtype):
#     made = model.generate(ids)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype, but got: float != c10::",
#     "expected scalar type Float but found",
# ]
# where = "transformers.models.xlnet.modeling_xlnet:XLNetRelativeAttention.forward"
# ///
"""XLNet must generate with 16-bit weights.

A plain forward pass works. For generation the model builds `target_mapping`, which selects the
token to predict, always in fp32, and multiplies it with the states of the second attention stream.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import XLNetConfig, XLNetLMHeadModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 64}
WORKAROUNDS = {"", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = XLNetLMHeadModel(XLNetConfig(**SIZES)).to(device).eval()
    mixed = workaround == "autocast" and precision != "fp32"
    if not mixed:
        model.to(dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        made = model.generate(ids, min_new_tokens=2, max_new_tokens=2, do_sample=False)
    assert made.shape == (1, 10), "not all tokens were generated"


if __name__ == "__main__":
    main(*sys.argv[1:])
