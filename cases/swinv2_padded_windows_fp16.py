# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Swin Transformer V2 gives NaN in fp16 where its windows do not divide the image"
# reports = []
# found-by = "sweep"
# area = "normalisation"
# models = ["swinv2"]
# trigger = ["cast", "forward"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# whole-windows = { says = "Choose a window_size that divides the rows and columns of patches.", skips = true }
#
# [tool.repromatrix.snippets]
# whole-windows = "config = Swinv2Config(**options, window_size=4)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "NaN in the last hidden state"
# where = "swinv2_padded_windows_fp16:main"
# ///
"""Swin Transformer V2 must give finite states in fp16 for an image that its windows do not divide.

`Swinv2Layer.maybe_pad` pads to whole windows with zeros. Their keys are zero, as the projection of
keys has no bias, and `Swinv2SelfAttention.forward` normalises keys with an eps of 1e-12, which is 0
in fp16: 0 / 0 is NaN.
"""

import os
import sys

import torch
from transformers import Swinv2Config, Swinv2Model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1], "num_heads": [2]}
WORKAROUNDS = {"", "whole-windows"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    window = 4 if workaround == "whole-windows" else 3
    model = Swinv2Model(Swinv2Config(**SIZES, window_size=window)).to(device, dtype).eval()
    with torch.no_grad():
        states = model(torch.rand(1, 3, 32, 32, device=device, dtype=dtype)).last_hidden_state
    assert states.isfinite().all(), "NaN in the last hidden state"


if __name__ == "__main__":
    main(*sys.argv[1:])
