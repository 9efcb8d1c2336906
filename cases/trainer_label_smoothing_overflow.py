# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Label smoothing of fp16 logits gives an infinite loss for a large batch"
# reports = ["https://github.com/huggingface/transformers/issues/10674"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model whose fp16 logits reach label smoothing; under fp16=True or bf16=True the Trainer
# makes them fp32, so those runs cannot meet it."""
# trigger = ["load", "cast", "trainer"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# logits-fp32 = "Cast the logits to fp32 before the loss."
# small-batch = { says = "Use a quarter of the batch size.", skips = true }
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "the smoothed loss is not finite"
# where = "trainer_label_smoothing_overflow:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/10674"
# says = "Taking the logits or the log-probabilities back to fp32 makes the problem go away."
# precisions = ["fp16"]
# workaround = "logits-fp32"
# outcome = "passes"
# ///
"""Label smoothing over a large batch must return the loss that it returns in fp32.

With fp16 logits it returns inf: since the report the smoothed part is summed in fp32, but the part
of the labels is still summed over all tokens in the dtype of the logits, and fp16 ends at 65504.
It takes 16-bit weights without mixed precision, such as fp16_full_eval: with fp16=True or bf16=True
the Trainer passes fp32 logits and is not affected. The case calls LabelSmoother directly.
"""

import os
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.trainer_pt_utils import LabelSmoother

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 16}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2}
WORKAROUNDS = {"", "logits-fp32", "small-batch"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    rows = 256 if workaround == "small-batch" else 1024
    ids = torch.randint(99, (rows, 16), device=device)
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    if workaround == "logits-fp32":
        logits = logits.float()
    loss = LabelSmoother(0.1)({"logits": logits}, ids)
    measured["loss"] = loss.item()
    assert loss.isfinite(), "the smoothed loss is not finite"
    expected = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten())
    assert abs(loss - expected) < 0.05, "the smoothed loss is off"


if __name__ == "__main__":
    main(*sys.argv[1:])
