# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "MRA in bf16 or fp16 fails: its attention returns fp32 to a linear layer in 16 bit"
# reports = []
# found-by = "sweep"
# area = "attention"
# models = ["mra"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
#     "mat1 and mat2 must have the same dtype, but got Float and Half",
# ]
# where = "transformers.models.mra.modeling_mra:MraSelfOutput.forward"
# ///
"""MRA must run a forward pass with 16-bit weights.

`MraSelfAttention.forward` upcasts queries, keys and values, computes in fp32, and returns that
without a cast to the dtype of the hidden states. `MraSelfOutput` then multiplies fp32 states with
16-bit weights.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import MraConfig, MraForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    config = MraConfig(**SIZES, num_attention_heads=2, max_position_embeddings=64)
    model = MraForMaskedLM(config).to(device, torch.float32 if mixed else dtype).eval()
    ids = torch.randint(5, 90, (1, 64), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
