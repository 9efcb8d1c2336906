# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "DBRX under autocast fails in index_add_: self and source have another scalar type"
# reports = []
# found-by = "sweep"
# area = "moe-routing"
# models = ["dbrx"]
# trigger = ["autocast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-weights = "Cast the model to 16 bit instead of using autocast."
#
# [tool.repromatrix.snippets]
# cast-weights = "model.to(dtype)  # and no torch.autocast"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# precisions = ["bf16", "fp16"]
# devices = ["cpu"]
# raises = "RuntimeError"
# match = [
#     "index_add_(): self (Float) and source (BFloat16) must have the same scalar type",
#     "index_add_(): self (Float) and source (Half) must have the same scalar type",
# ]
# where = "transformers.models.dbrx.modeling_dbrx:DbrxExperts.forward"
# ///
"""DBRX with fp32 weights must run a forward pass under autocast.

`DbrxExperts.forward` sums the outputs of the experts in a tensor of zeros with the dtype of its
input, which autocast computes in fp32, as it comes from a layer norm. Since 5.0 the softmax of the
router keeps the dtype of the logits, so that an expert's output, times its weight, is in 16 bit,
which `index_add_` does not cast. Earlier releases compute these weights in fp32, and on CUDA autocast
computes every softmax in fp32.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import DbrxConfig, DbrxForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "n_heads": 4, "n_layers": 1, "max_seq_len": 64}
ATTENTION = {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}
EXPERTS = {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}
WORKAROUNDS = {"", "cast-weights"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = DbrxConfig(**SIZES, attn_config=ATTENTION, ffn_config=EXPERTS)
    config.ffn_config.hidden_size = config.d_model
    model = DbrxForCausalLM(config).to(device).eval()
    if workaround == "cast-weights":
        model.to(dtype)
    mixed = precision != "fp32" and workaround != "cast-weights"
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
