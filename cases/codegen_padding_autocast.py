# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "CodeGen trained under autocast with left padding: the loss is NaN"
# reports = []
# found-by = "measurement"
# area = "attention-mask"
# models = ["codegen"]
# trigger = ["autocast"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# pad-right = "Pad on the right, so that no row is fully masked."
# cast-weights = "Cast the model to 16 bit instead of using autocast."
#
# [tool.repromatrix.snippets]
# pad-right = "mask[row, length:] = 0  # the padding at the end of the row"
# cast-weights = "model.to(dtype)  # and no torch.autocast"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.2"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the loss is not finite"
# where = "codegen_padding_autocast:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/42186"
# ///
"""The loss of a left-padded batch must be finite under autocast as it is in fp32.

Until 5.1 it was NaN. CodeGen upcasts queries and keys to fp32, but autocast computes their product
in 16 bit; the mask, filled with the minimum of fp32, was added in place and overflowed to -inf.
Rows of padding tokens are fully masked, so their softmax is NaN, and so is the loss.
Since 5.2 the mask is no longer added in place.
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
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
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
    loss.backward()
    finite = sum(weight.grad.isfinite().sum().item() for weight in model.parameters())
    measured["nonfinite_share"] = 1 - finite / sum(weight.numel() for weight in model.parameters())
    assert loss.isfinite(), "the loss is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
