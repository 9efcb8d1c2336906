# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "torchao>=0.11"]
#
# [tool.repromatrix]
# title = "torchao's 8-bit Adam raises at its first step where torch's default dtype is 16 bit"
# reports = [
#     "https://github.com/pytorch/ao/pull/2286",
#     "https://github.com/pytorch/ao/issues/1067",
# ]
# area = "optimizer"
# models = "any"
# shown-with = ["linear"]
# concerns = "Models that are trained under torch.set_default_dtype of 16 bit."
# trigger = ["backward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# default-fp32 = "Reset torch's default dtype to fp32 before the first step."
#
# [tool.repromatrix.snippets]
# default-fp32 = "torch.set_default_dtype(torch.float32)  # before the first step"
#
# [[tool.repromatrix.fails]]
# when = ["torchao<0.12"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "for `end` but got dtype float"
# where = "torchao.optim.subclass_8bit:_"
# fixed-by = "https://github.com/pytorch/ao/pull/2286"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/pull/2286"
# says = "The optimiser fails where the default dtype is bf16."
# when = ["torchao<0.12"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/pull/2286"
# says = "Making the table of quantised values in fp32 fixes it."
# when = ["torchao>=0.12"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""AdamW in 8 bit must step where a layer was made under a default dtype of 16 bit.

The table of the values that 8 bit stand for was a list made into a tensor of the default dtype; the
moments that it gives back had that dtype, and torch.lerp refused the fp32 gradient beside them.
The step is not compiled here, as that takes many seconds and changes only the class of the error.
"""

import os
import sys

import torch
from torchao import optim

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in {"", "default-fp32"}, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device = os.environ.get("REPRO_DEVICE", "cpu")
    torch.compiler.set_stance("force_eager")
    torch.set_default_dtype(DTYPES[precision])
    layer = torch.nn.Linear(64, 64, device=device)  # 4096 weights: smaller ones are kept in fp32
    loss = layer(torch.randn(32, 64, device=device)).pow(2).mean()
    loss.backward()
    if workaround == "default-fp32":
        torch.set_default_dtype(torch.float32)
    optim.AdamW8bit(layer.parameters(), lr=1e-2).step()
    assert layer.weight.isfinite().all(), "weights are not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
