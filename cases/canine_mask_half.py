# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "CANINE in fp16 or bf16: expected scalar type Float but found Half, in attention"
# reports = ["https://github.com/huggingface/transformers/issues/47050"]
# area = "attention-mask"
# models = ["canine"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# # with the weights in fp32
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.14"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected scalar type Float but found Half",
#     "expected scalar type Float but found BFloat16",
# ]
# where = "transformers.models.canine.modeling_canine:CanineSelfAttention.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/47083"
# note = "Reported from an export to ONNX; the model itself fails in the same way."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47050"
# says = "The export of a model in float16 fails in attention with 5.12.1."
# when = ["transformers==5.12.1"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""CANINE must run a forward pass in 16 bit.

The mask of its character encoders is made in fp32 whatever the model's dtype, and added to the
scores, so that the probabilities are in fp32 as well, and meet values in 16 bit.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import CanineConfig, CanineModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_hash_functions": 4, "num_hash_buckets": 64}
WORKAROUNDS = {"", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = CanineModel(CanineConfig(**SIZES, **HEADS)).to(device).eval()
    if workaround != "autocast":
        model.to(dtype)
    mixed = workaround == "autocast" and precision != "fp32"
    ids = torch.randint(97, 122, (1, 16), device=device)
    with torch.no_grad(), torch.autocast(device, dtype) if mixed else nullcontext():
        states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert states.isfinite().all(), "non-finite states"


if __name__ == "__main__":
    main(*sys.argv[1:])
