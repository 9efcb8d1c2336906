# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "torchao>=0.11"]
#
# [tool.repromatrix]
# title = "torchao's quantize_ lowers the precision of fp32 products in the whole process"
# reports = ["https://github.com/pytorch/ao/pull/4643"]
# area = "quantization"
# models = "any"
# shown-with = ["linear"]
# concerns = "Whatever computes in fp32 in a process in which torchao has quantised a model."
# trigger = ["load"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# restore = "Read torch.get_float32_matmul_precision before, and set it again afterwards."
# no-inductor-config = "Pass set_inductor_config=False in the config."
#
# [tool.repromatrix.snippets]
# restore = '''
# before = torch.get_float32_matmul_precision()  # and then quantize_
# torch.set_float32_matmul_precision(before)'''
# no-inductor-config = "quantize_(model, Int8WeightOnlyConfig(set_inductor_config=False))"
#
# [[tool.repromatrix.fails]]
# when = ["torchao<0.18"]
# raises = "AssertionError"
# match = "the precision of fp32 products is high"
# where = "torchao_matmul_precision_leak:main"
# fixed-by = "https://github.com/pytorch/ao/pull/4643"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/pull/4643"
# says = "quantize_ sets the precision to high and never restores it."
# when = ["torchao<0.18"]
# precisions = ["fp32"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/pytorch/ao/pull/4643"
# says = "Leaving the setting to the caller fixes it completely."
# when = ["torchao>=0.18"]
# precisions = ["fp32"]
# outcome = "passes"
# ///
"""Quantising one model must not change how torch multiplies fp32 matrices elsewhere.

`quantize_` applied torchao's recommended settings of inductor, and with them called
`torch.set_float32_matmul_precision("high")`: on a GPU every later product of fp32 matrices in the
process is computed in TF32, with 10 bits, and on a CPU in bf16 where it has instructions for that.
The case reads the setting: on the CPU that measured it no number changes.
"""

import os
import sys

import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "restore", "no-inductor-config"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = torch.nn.Sequential(torch.nn.Linear(64, 64, device=device, dtype=dtype))
    before = torch.get_float32_matmul_precision()
    options = {"set_inductor_config": False} if workaround == "no-inductor-config" else {}
    quantize_(model, Int8WeightOnlyConfig(**options))
    if workaround == "restore":
        torch.set_float32_matmul_precision(before)
    assert model(torch.randn(4, 64, device=device, dtype=dtype)).isfinite().all()
    after = torch.get_float32_matmul_precision()
    assert after == before, f"the precision of fp32 products is {after}"


if __name__ == "__main__":
    main(*sys.argv[1:])
