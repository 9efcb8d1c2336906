# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "BEiT in 16 bit fails on fp32 pixel_values: 'Input type (float) and bias type'"
# reports = []
# found-by = "measurement"
# area = "vision-tower"
# models = ["beit"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-pixels = "Cast pixel_values to model.dtype before the call."
# autocast = "Keep the model in 16 bit and call it under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-pixels = "pixels = pixels.to(model.dtype)"
# autocast = '''
# with torch.autocast(device, dtype):
#     states = model(pixels).last_hidden_state'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.9"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = ["Input type (float) and bias type (", "Input type (torch.cuda.FloatTensor) and"]
# where = "transformers.models.beit.modeling_beit:BeitPatchEmbeddings.forward"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = ["Input type (float) and bias type (", "Input type (torch.cuda.FloatTensor) and"]
# where = "transformers.models.beit.modeling_beit:BeitPatchEmbeddings.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/42805"
# ///
"""BEiT in bf16 or fp16 must accept fp32 pixel_values, which is what its image processor returns.

Releases 5.0 to 5.8 cast pixel_values to the dtype of the patch embedding. 4.x never did, and the
refactored embeddings of 5.9 dropped the cast again, so the first convolution raises.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import BeitConfig, BeitModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-pixels", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = BeitConfig(**LAYERS, num_attention_heads=2, image_size=28, patch_size=14)
    model = BeitModel(config).to(device, dtype).eval()
    pixels = torch.randn(1, 3, 28, 28, device=device)
    wanted = model(pixels.to(dtype)).last_hidden_state.float()
    if workaround == "cast-pixels":
        pixels = pixels.to(model.dtype)
    autocast = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if autocast else nullcontext():
        found = model(pixels).last_hidden_state.float()
    measured["relative_difference"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["relative_difference"] < 0.1, "fp32 pixels give other features"


if __name__ == "__main__":
    main(*sys.argv[1:])
