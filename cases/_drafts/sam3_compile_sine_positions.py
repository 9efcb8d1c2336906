# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5"]
#
# [tool.repromatrix]
# title = "SAM 3 in 16 bit fails under torch.compile: its position embeddings come out in fp32"
# reports = [
#     "https://github.com/huggingface/transformers/issues/47228",
#     "https://github.com/huggingface/transformers/pull/47238",
#     "https://github.com/pytorch/pytorch/issues/189518",
# ]
# area = "compile"
# models = ["sam3"]
# same-code = ["sam2", "edgetam", "maskformer", "mask2former", "detr", "conditional-detr"]
# trigger = ["compile", "load", "cast"]
# symptom = ["wrong-dtype"]
# isolation = "process"
# timeout = 180
#
# [tool.repromatrix.workarounds]
# no-compile = { says = "Do not compile the model.", skips = true }
# no-patterns = "Compile with the option pattern_matcher set to False."
# with-mask = "Pass a mask, of ones, so that none is made."
# ///
"""A compiled sine position embedding must have the dtype that it was asked for.

Without a mask rows and columns are counted with `cumsum(..., dtype=dtype)` over a boolean tensor
of ones, which the compiler of torch 2.13 replaces by a range in int64: the embedding becomes fp32,
and the next product with 16-bit weights raises "mat1 and mat2 must have the same dtype". Compiled
is the embedding alone, which is what takes the seconds; before 5.9 the tensor is one of zeros.
"""

import os
import sys

import torch
from transformers.models.sam3.modeling_sam3 import Sam3SinePositionEmbedding

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "no-compile", "no-patterns", "with-mask"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    positions = Sam3SinePositionEmbedding(8, normalize=True)
    options = {"pattern_matcher": workaround != "no-patterns"}
    shape = torch.Size((1, 4, 6, 8))
    mask = (
        torch.ones(1, 6, 8, device=device, dtype=torch.bool) if workaround == "with-mask" else None
    )
    run = positions if workaround == "no-compile" else torch.compile(positions, options=options)
    found = run(shape, device, dtype, mask)
    assert found.dtype is dtype, "the position embedding is not in the dtype that was asked for"


if __name__ == "__main__":
    main(*sys.argv[1:])
