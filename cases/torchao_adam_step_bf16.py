# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "torchao>=0.11"]
#
# [tool.repromatrix]
# title = "torchao's Adam counts no further than 256 steps where torch's default dtype is bf16"
# reports = ["https://github.com/pytorch/ao/pull/4915"]
# area = "optimizer"
# models = "any"
# shown-with = ["linear"]
# concerns = "Models that are trained under torch.set_default_dtype(torch.bfloat16)."
# trigger = ["backward"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# default-fp32 = "Reset torch's default dtype to fp32 before the first step."
#
# [tool.repromatrix.snippets]
# default-fp32 = "torch.set_default_dtype(torch.float32)  # before the first step"
#
# [[tool.repromatrix.fails]]
# at-fault = "torchao"
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "the optimizer counts fewer steps than it took"
# where = "torchao_adam_step_bf16:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/pull/4915"
# says = "Under a default dtype of bf16 the counter stops at 256, and updates stay too small."
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""AdamW in 8 bit must count its steps whatever torch's default dtype is.

The counter is made in the default dtype; bf16 has no 257, so that adding one changes nothing. The
bias corrections follow the counter, and stay for good at what they are after 256 steps. fp16 counts
to 2048. The step is not compiled here, as that takes many seconds; the counter is outside of it.
"""

import os
import sys

import torch
from torchao import optim

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
STEPS = 260


def main(precision: str, workaround: str = "") -> None:
    assert workaround in {"", "default-fp32"}, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device = os.environ.get("REPRO_DEVICE", "cpu")
    torch.compiler.set_stance("force_eager")
    torch.set_default_dtype(DTYPES[precision])
    layer = torch.nn.Linear(4, 4, bias=False, device=device)
    layer(torch.randn(2, 4, device=device)).pow(2).mean().backward()
    if workaround == "default-fp32":
        torch.set_default_dtype(torch.float32)
    optimizer = optim.AdamW8bit(layer.parameters(), lr=1e-4)
    for _ in range(STEPS):
        optimizer.step()
    counted = optimizer.state[layer.weight]["step"].item()
    assert counted == STEPS, "the optimizer counts fewer steps than it took"


if __name__ == "__main__":
    main(*sys.argv[1:])
