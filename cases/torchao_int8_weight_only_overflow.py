# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "torchao>=0.11"]
#
# [tool.repromatrix]
# title = "torchao's int8 weight-only linear layers overflow in fp16 before they are rescaled"
# reports = [
#     "https://github.com/pytorch/ao/issues/1662",
#     "https://github.com/huggingface/diffusion-fast/issues/1",
# ]
# area = "overflow"
# models = "any"
# shown-with = ["linear"]
# concerns = "fp16 models with int8 weights by torchao, where a layer's input is large."
# trigger = ["forward"]
# symptom = ["nan-or-inf"]
# simulates = """
# The input has a standard deviation of 64, which stands for the input of a decoder's down \
# projection; weights and input are random."""
#
# [tool.repromatrix.workarounds]
# dynamic = "Quantise the inputs as well: Int8DynamicActivationInt8WeightConfig sums in int32."
# bf16 = "Use bf16 in place of fp16."
#
# [tool.repromatrix.snippets]
# dynamic = "quantization.quantize_(model, quantization.Int8DynamicActivationInt8WeightConfig())"
# bf16 = "model.to(torch.bfloat16)  # before quantize_"
#
# [[tool.repromatrix.fails]]
# at-fault = "torchao"
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "outputs are not finite"
# where = "torchao_int8_weight_only_overflow:main"
#
# [[tool.repromatrix.fails]]
# title = "torchao's int8 layers with quantised inputs overflow in fp16: outputs are not finite"
# when = ["torchao>=0.16"]
# precisions = ["fp16"]
# workarounds = ["dynamic"]
# raises = "AssertionError"
# match = "outputs are not finite"
# where = "torchao_int8_weight_only_overflow:main"
# note = "Measured on 0.15.0 and 0.18.0; where between them it began is not known."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/issues/1662"
# says = "A model in fp16 with int8 weights returns NaN on several kinds of CPU."
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/issues/1662"
# says = "In bf16 the values stay finite."
# precisions = ["bf16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/diffusion-fast/issues/1"
# says = "With weights and inputs in fp16 the product passes its range before it is rescaled."
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/diffusion-fast/issues/1"
# says = "Quantising the inputs as well works with fp16."
# precisions = ["fp16"]
# workaround = "dynamic"
# outcome = "passes"
# ///
"""A linear layer with int8 weights must stay finite in fp16 where the unquantised one does.

The input is multiplied with the whole numbers from -127 to 127 that stand for the weights, and the
scale of about 0.0003 comes after the product: outputs near 80 are sums near 250,000 before it, past
the 65,504 of fp16. Infinite outputs become NaN a few layers on, as the report has it.
"""

import os
import sys

import torch
from torchao import quantization

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in {"", "dynamic", "bf16"}, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    used = torch.bfloat16 if workaround == "bf16" else dtype
    model = torch.nn.Sequential(torch.nn.Linear(512, 64, bias=False, device=device)).to(used)
    inputs = 64 * torch.randn(16, 512, device=device, dtype=used)
    assert model(inputs).isfinite().all(), "the unquantised layer overflows"
    config = quantization.Int8WeightOnlyConfig
    if workaround == "dynamic":
        config = quantization.Int8DynamicActivationInt8WeightConfig
    quantization.quantize_(model, config())
    outputs = model(inputs).to(dtype)
    measured["nonfinite_share"] = 1 - outputs.isfinite().float().mean().item()
    assert measured["nonfinite_share"] == 0, "outputs are not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
