# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Jamba, accelerate: 'HybridMambaAttentionDynamicCache' has no attribute 'float'"
# reports = ["https://github.com/huggingface/transformers/issues/36938"]
# found-by = "measurement"
# area = "kv-cache"
# models = ["jamba"]
# trigger = ["load", "cast", "autocast"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# use-cache-off = "Set model.config.use_cache = False while training and evaluating."
# autocast-only = "Run the model under torch.autocast instead of preparing it."
#
# [tool.repromatrix.snippets]
# use-cache-off = "model.config.use_cache = False"
# autocast-only = '''
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=5.0,<5.5"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'HybridMambaAttentionDynamicCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/44950"
# note = "The reports are about another cache; this one is older, but was not returned before."
# ///
"""A 16-bit Jamba must run with accelerate's conversion of outputs to fp32.

From 5.0 to 5.4 it raised: the conversion takes every output with a 16-bit `dtype` for a tensor, and
the cache that Jamba began to create and return has a `dtype` without being a tensor. The linked
reports are of the same error with another cache; for Jamba it was found by measurement.
"""

import os
import sys
from contextlib import nullcontext

import torch
from accelerate.utils import convert_outputs_to_fp32
from transformers import JambaConfig, JambaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "mamba_d_state": 4}
EXPERTS = {"num_experts": 1, "num_experts_per_tok": 1, "expert_layer_offset": 0}
ATTENTION = {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}
WORKAROUNDS = {"", "use-cache-off", "autocast-only"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = JambaConfig(**SIZES, **HEADS, **EXPERTS, **ATTENTION)
    model = JambaForCausalLM(config).to(device, dtype).eval()
    model.config.use_cache = workaround != "use-cache-off"
    if workaround != "autocast-only":
        model.forward = convert_outputs_to_fp32(model.forward)
    half = workaround == "autocast-only" and dtype != torch.float32
    with torch.autocast(device, dtype) if half else nullcontext():
        logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
