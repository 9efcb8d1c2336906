# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "MaskFormer's Swin backbone fails in bf16 and fp16: shifted-window mask is fp32"
# reports = ["https://github.com/huggingface/transformers/issues/47743"]
# area = "attention-mask"
# models = ["maskformer"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model.eval()(pixels)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.18"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype, but got: float != c10::",
#     "expected scalar type Float but found",
# ]
# where = "transformers.models.maskformer.modeling_maskformer_swin:MaskFormerSwinSelfAttention.forward"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47743"
# says = "A development version of 5.15.0 cannot run in either 16-bit format."
# when = ["transformers==5.15.0"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47743"
# says = "In float32 the model runs."
# precisions = ["fp32"]
# outcome = "passes"
# ///
"""MaskFormer's Swin backbone must run a forward pass in bf16 and fp16.

Until 5.17 the mask of the shifted windows was always in fp32: it upcast the attention scores, which
could then not be multiplied with 16-bit values. Every second layer uses shifted windows, so a
single layer does not show it.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import MaskFormerSwinConfig
from transformers.models.maskformer.modeling_maskformer_swin import MaskFormerSwinModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "autocast"}
SIZES = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "window_size": 4}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    config = MaskFormerSwinConfig(**SIZES, depths=[2], num_heads=[2])
    model = MaskFormerSwinModel(config).to(device, torch.float32 if autocast else dtype)
    pixels = torch.randn(1, 3, 16, 16, device=device)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        hidden = model.eval()(pixels.to(model.dtype)).last_hidden_state
    assert hidden.isfinite().all(), "non-finite hidden states"


if __name__ == "__main__":
    main(*sys.argv[1:])
