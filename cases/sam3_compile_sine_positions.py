# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.4"]
#
# [tool.repromatrix]
# title = "SAM 3 in 16 bit fails under torch.compile: its position embeddings come out in fp32"
# reports = [
#     "https://github.com/huggingface/transformers/issues/47228",
#     "https://github.com/pytorch/pytorch/issues/189518",
# ]
# area = "compile"
# models = ["sam3"]
# same-code = ["sam2", "edgetam", "maskformer", "mask2former", "detr", "conditional-detr"]
# trigger = ["compile", "load", "cast"]
# symptom = ["wrong-dtype"]
# timeout = 180
#
# [tool.repromatrix.workarounds]
# no-compile = { says = "Do not compile the model.", skips = true }
# no-patterns = "Compile with the option pattern_matcher set to False."
#
# [tool.repromatrix.snippets]
# no-patterns = 'model = torch.compile(model, options={"pattern_matcher": False})'
#
# [[tool.repromatrix.fails]]
# at-fault = "torch"
# when = ["transformers>=5.9.0,<5.14.0"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the position embedding is in torch.float32"
# where = "sam3_compile_sine_positions:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47238"
# ///
"""A compiled sine position embedding must have the dtype that it was asked for.

From 5.9 to 5.13 rows and columns are counted, where there is no mask, by the cumulative sum in
that dtype of a boolean tensor of ones. The compiler of torch 2.13 replaces it by a range in int64,
so that the embedding becomes fp32, and the next product with 16-bit weights raises "mat1 and mat2
must have the same dtype". Compiled is the embedding alone.
"""

import os
import sys

import torch
from transformers.models.sam3.modeling_sam3 import Sam3SinePositionEmbedding

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Otherwise the compiler builds five programs to see which vectors this processor has.
QUICK = {"cpp.vec_isa_ok": False, "compile_threads": 1}
WORKAROUNDS = {"", "no-compile", "no-patterns"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    positions = Sam3SinePositionEmbedding(8, normalize=True)
    if workaround != "no-compile":
        options = {**QUICK, "pattern_matcher": workaround != "no-patterns"}
        positions = torch.compile(positions, options=options)
    found = positions(torch.Size((1, 4, 6, 8)), device, dtype)
    assert found.dtype is dtype, f"the position embedding is in {found.dtype}"


if __name__ == "__main__":
    main(*sys.argv[1:])
