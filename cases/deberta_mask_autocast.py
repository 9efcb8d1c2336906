# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "DeBERTa under autocast fails in masked_fill: 'value cannot be converted to type'"
# reports = [
#     "https://github.com/huggingface/transformers/issues/35332",
#     "https://github.com/intel/torch-xpu-ops/issues/1159",
#     "https://github.com/intel/torch-xpu-ops/issues/1389",
# ]
# area = "autocast"
# models = ["deberta"]
# trigger = ["autocast"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-weights = "Cast the model to 16 bit instead of using autocast."
#
# [tool.repromatrix.snippets]
# cast-weights = "model.to(dtype)  # and no torch.autocast"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = ["value cannot be converted to type c10::", "value cannot be converted to type at::"]
# where = "transformers.models.deberta.modeling_deberta:DisentangledSelfAttention.forward"
# note = "https://github.com/huggingface/transformers/pull/35336 proposes to mend it."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/35332"
# says = "A model in bf16 fails without autocast, too (on 4.47.0, so not measured)."
# precisions = ["bf16"]
# workaround = "cast-weights"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/intel/torch-xpu-ops/issues/1389"
# says = "DebertaForMaskedLM fails under autocast in bf16 and in fp16."
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""DeBERTa with fp32 weights must run a forward pass under autocast.

A bias upcasts its queries to fp32, while the attention scores are computed in 16 bit. The scores
are then masked with the minimum of the dtype of the queries, which bf16 and fp16 cannot represent.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import DebertaConfig, DebertaForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-weights"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = DebertaForMaskedLM(DebertaConfig(**SIZES, num_attention_heads=4)).to(device).eval()
    if workaround == "cast-weights":
        model.to(dtype)
    mixed = precision != "fp32" and workaround != "cast-weights"
    ids, mask = torch.randint(5, 90, (1, 8), device=device), torch.ones(1, 8, device=device)
    mask[:, 6:] = 0
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model(input_ids=ids, attention_mask=mask).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
