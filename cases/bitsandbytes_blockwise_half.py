# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "bitsandbytes>=0.45"]
#
# [tool.repromatrix]
# title = "bitsandbytes on a CPU: 8-bit blockwise quantisation of 16-bit tensors crashes"
# reports = ["https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1540"]
# area = "quantization"
# models = "any"
# shown-with = ["linear"]
# concerns = "16-bit tensors, such as gradients that are sent in 8 bit."
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast = "Quantise the tensor in fp32, and cast what comes back."
#
# [tool.repromatrix.snippets]
# cast = '''
# quantised, state = functional.quantize_blockwise(weights.float())
# # and cast what dequantize_blockwise makes of them: .to(dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["bitsandbytes<0.46"]
# precisions = ["bf16", "fp16"]
# outcome = "crashes"
# raises = "SIGSEGV"
# match = "died by SIGSEGV"
#
# [[tool.repromatrix.fails]]
# title = "bitsandbytes 0.46 on a CPU: 8-bit blockwise quantisation refuses 16-bit tensors"
# when = ["bitsandbytes>=0.46,<0.47"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "A must be float32 on cpu, got torch."
# where = "bitsandbytes.backends.cpu.ops:_"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1540"
# says = "With float16 on a CPU the process ends with a segmentation fault."
# when = ["bitsandbytes<0.46"]
# precisions = ["fp16"]
# outcome = "crashes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1540"
# says = "With float32 the result is right."
# precisions = ["fp32"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1540"
# says = "A RuntimeError is raised from 0.46 on."
# when = ["bitsandbytes>=0.46,<0.47"]
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1540"
# says = "16-bit tensors are supported on a CPU from 0.47 on."
# when = ["bitsandbytes>=0.47"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A 16-bit tensor on a CPU must come back from 8-bit blockwise quantisation nearly as it was.

The kernel for CPUs reads fp32. It was called whatever the dtype of the tensor, and read past the
end of 16-bit ones: a segmentation fault, or zeros. 0.46 refused them, 0.47 casts them.
"""

import os
import sys

import torch
from bitsandbytes import functional

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in {"", "cast"}, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    weights = torch.nn.Linear(256, 4096, device=device, dtype=dtype).weight.detach()
    given = weights.float() if workaround == "cast" else weights
    quantised, state = functional.quantize_blockwise(given)
    back = functional.dequantize_blockwise(quantised, state).to(dtype)
    error = (back - weights).float()
    measured["output_relative_error"] = (error.norm() / weights.float().norm()).item()
    assert measured["output_relative_error"] < 0.05, "the values do not come back"


if __name__ == "__main__":
    main(*sys.argv[1:])
