# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Mimi fails after a cast: codebooks keep the dtype of the first forward pass"
# reports = []
# found-by = "sweep"
# area = "audio-tower"
# models = ["mimi"]
# trigger = ["cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# clear-cache = "Set _embed of each codebook to None after the cast."
# cast-first = { says = "Cast the model before its first use, never after it.", skips = true }
#
# [tool.repromatrix.snippets]
# clear-cache = '''
# for module in model.modules():
#     if "_embed" in vars(module):
#         vars(module)["_embed"] = None'''
# cast-first = '''
# model.to(dtype)  # once, before its first use
# values = model.decode(codes)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Input type (CPUBFloat16Type) and weight type (torch.FloatTensor) should be the same or input should be a MKLDNN tensor a",
#     "Input type (torch.HalfTensor) and weight type (torch.FloatTensor) should be the same or input should be a MKLDNN tensor a",
#     "Input type (CUDABFloat16Type) and weight type (torch.cuda.FloatTensor) should be the same",
#     "Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same",
#     "expected scalar type Half but found Float",
#     "expected scalar type BFloat16 but found Float",
# ]
# where = "transformers.models.mimi.modeling_mimi:MimiConvTranspose1d.forward"
# ///
"""Mimi must decode codes after a cast to another dtype.

`MimiEuclideanCodebook.embed` divides two buffers at its first use and keeps the quotient in
`_embed`, a plain attribute, which `.to(dtype)` does not reach. After a cast the quantizer looks up
vectors in the dtype of the first use and gives them to a convolution in the new one. It is the same
from 16 bit to fp32, as here, and from fp32 to 16 bit.
"""

import os
import sys

import torch
from transformers import MimiConfig, MimiModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_filters": 4, "kernel_size": 3}
CODES = {"codebook_size": 16, "codebook_dim": 16, "vector_quantization_hidden_dimension": 16}
RATES = {"upsampling_ratios": [8, 6, 5, 4], "upsample_groups": 16, "num_quantizers": 2}
WORKAROUNDS = {"", "clear-cache", "cast-first"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = MimiConfig(**SIZES, **HEADS, **CODES, **RATES)
    model = MimiModel(config).to(device, dtype).eval()
    codes = torch.randint(0, 16, (1, 2, 4), device=device)
    with torch.no_grad():
        model.decode(codes)
        if workaround != "cast-first":
            model.float()
        if workaround == "clear-cache":
            for module in model.modules():
                if "_embed" in vars(module):
                    vars(module)["_embed"] = None
        values = model.decode(codes).audio_values
    assert values.isfinite().all(), "non-finite audio"


if __name__ == "__main__":
    main(*sys.argv[1:])
