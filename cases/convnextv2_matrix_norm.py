# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "ConvNeXt V2: linalg.matrix_norm: Low precision dtypes not supported"
# reports = [
#     "https://github.com/huggingface/transformers/issues/37748",
#     "https://github.com/huggingface/transformers/pull/38015",
# ]
# area = "normalisation"
# models = ["convnextv2"]
# trigger = ["load", "cast", "autocast", "forward"]
# symptom = ["error", "wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(pixels)'''
#
# [[tool.repromatrix.fails]]
# title = "ConvNeXt V2 in 4.51 normalises by a matrix norm: outputs depend on where the pixels lie"
# when = ["transformers>=4.51.0,<4.52.1"]
# precisions = ["fp32"]
# workarounds = ["*"]
# raises = "AssertionError"
# match = "the norm depends on where the pixels lie"
# where = "convnextv2_matrix_norm:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38015"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.51.0,<4.52.1"]
# precisions = ["bf16", "fp16"]
# workarounds = ["*"]
# raises = "RuntimeError"
# match = [
#     "linalg.matrix_norm: Low precision dtypes not supported. Got BFloat16",
#     "linalg.matrix_norm: Low precision dtypes not supported. Got Half",
# ]
# where = "transformers.models.convnextv2.modeling_convnextv2:ConvNextV2GRN.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/38015"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/38015"
# says = "torch.linalg.norm over two dimensions is another norm than torch.norm."
# when = ["transformers>=4.51,<4.52"]
# precisions = ["fp32"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/38015"
# says = "The norm of a vector restores what it was."
# when = ["transformers>=4.52"]
# outcome = "passes"
# ///
"""ConvNeXt V2 normalises by the norm over all pixels of a channel, in every precision.

When `torch.norm` became `torch.linalg.norm`, two dimensions began to mean the norm of a matrix. It
has no 16-bit kernel; in fp32 it is another number, which depends on where the pixels lie.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import ConvNextV2Config, ConvNextV2Model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 32}
WORKAROUNDS = {"", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    model = ConvNextV2Model(ConvNextV2Config(**SIZES)).eval()
    norm = model.encoder.stages[0].layers[0].grn
    torch.nn.init.ones_(norm.weight)
    model.to(device, torch.float32 if autocast else dtype)
    seen: list[torch.Tensor] = []
    hook = norm.register_forward_hook(lambda _, given, found: seen.extend([*given, found]))
    with torch.autocast(device, dtype) if autocast else nullcontext():
        model(torch.randn(1, 3, 32, 32, device=device, dtype=model.dtype))
        hook.remove()
        column = norm(seen[0].flatten(1, 2)[:, :, None])  # the same pixels, one below the other
    found, wanted = seen[1].flatten(1, 2).float(), column[:, :, 0].float()
    measured["output_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["output_relative_error"] < 0.003, "the norm depends on where the pixels lie"


if __name__ == "__main__":
    main(*sys.argv[1:])
