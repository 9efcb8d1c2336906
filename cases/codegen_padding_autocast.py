# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Training CodeGen under autocast with left padding: the loss is NaN"
# reports = []
# found-by = "measurement"
# area = "attention-mask"
# models = ["codegen"]
# trigger = ["autocast"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# pad-right = "Pad on the right, so that no row of the mask is empty."
# cast-weights = "Cast the model to 16 bit in place of autocast."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.2"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the loss is not finite"
# where = "codegen_padding_autocast:main"
# ///
"""The loss of a left-padded batch must be finite under autocast as it is in fp32.

The scores were to be in fp32, but autocast computes their product in 16 bit all the same; the mask,
filled with the least number of fp32, was added in place and so became minus infinity, which makes
NaN of a padding token's row, where all is masked, and then of the loss. Gone with the in-place sum.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import CodeGenConfig, CodeGenForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 4}
WORKAROUNDS = {"", "pad-right", "cast-weights"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = CodeGenForCausalLM(CodeGenConfig(**SIZES)).to(device)
    if workaround == "cast-weights":
        model.to(dtype)
    mixed = precision != "fp32" and workaround != "cast-weights"
    ids, mask = torch.randint(5, 90, (2, 8), device=device), torch.ones(2, 8, device=device)
    padding = slice(5, 8) if workaround == "pad-right" else slice(0, 3)
    mask[0, padding] = 0
    labels = ids.masked_fill(mask == 0, -100)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    measured["loss"] = loss.item()
    assert loss.isfinite(), "the loss is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
