# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "bitsandbytes>=0.46"]
#
# [tool.repromatrix]
# title = "bitsandbytes Linear4bit: the first input replaces the compute dtype that was asked for"
# reports = ["https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1623"]
# area = "quantization"
# models = "any"
# shown-with = ["linear"]
# concerns = "Models with 4-bit layers whose input is fp32, as after norms in fp32."
# trigger = ["forward"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# cast-input = "Cast the input to the compute dtype."
# set-again = "Set compute_dtype of the layer again after the first input."
#
# [tool.repromatrix.snippets]
# cast-input = "outputs = layer(inputs.to(dtype))"
# set-again = '''
# layer(inputs)
# layer.compute_dtype = dtype'''
#
# [[tool.repromatrix.fails]]
# when = ["bitsandbytes<0.47"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the layer multiplies in another dtype"
# where = "bitsandbytes_compute_dtype:main"
# fixed-by = "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1623"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1623"
# says = "With an fp32 input and a compute dtype of bf16 a CPU multiplies in fp32."
# when = ["bitsandbytes<0.47"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1623"
# says = "Marking the compute dtype as set when the layer is made fixes it."
# when = ["bitsandbytes>=0.47"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""A 4-bit layer must multiply in the compute dtype that it was made with, whatever its input is.

`Linear4bit` chooses a compute dtype by its first input where none was asked for. It did so where
one was, too: a layer made with bf16 multiplied in fp32 once it had got an fp32 input, with more
memory and less speed than asked for, and for good. The case looks whether outputs are rounded.
"""

import os
import sys

import bitsandbytes
import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-input", "set-again"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    kinds = {"bias": False, "quant_type": "nf4", "compute_dtype": dtype}
    layer = bitsandbytes.nn.Linear4bit(64, 64, **kinds).to(device)
    inputs = torch.randn(4, 64, device=device, requires_grad=True)  # as below a trained adapter
    given = inputs.to(dtype) if workaround == "cast-input" else inputs
    layer(given)
    if workaround == "set-again":
        layer.compute_dtype = dtype
    outputs = layer(given).float()
    rounded = (outputs.to(dtype) * 1).float()
    assert torch.equal(outputs, rounded), "the layer multiplies in another dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
