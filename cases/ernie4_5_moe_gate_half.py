# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.54,!=5.4.0"]
#
# [tool.repromatrix]
# title = "ERNIE 4.5 MoE cast with .half() or .bfloat16() fails in the gate: dtype mismatch"
# reports = ["https://github.com/huggingface/transformers/pull/41385"]
# found-by = "measurement"
# area = "moe-routing"
# models = ["ernie4.5-moe"]
# trigger = ["cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# gate-fp32 = "Call .float() on every gate after casting the model, as from_pretrained leaves it."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# gate-fp32 = '''
# for name, module in model.named_modules():
#     if name.endswith("mlp.gate"):
#         module.float()'''
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54,<5.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype",
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "transformers.models.ernie4_5_moe.modeling_ernie4_5_moe:Ernie4_5_MoeSparseMoeBlock.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/42697"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/41385"
# says = "The gate is guaranteed to compute in fp32 (the change keeps autocast away from it)."
# when = ["transformers>=5.0"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""ERNIE 4.5 MoE must run a forward pass after the whole model is cast to 16 bit.

In 4.x each gate gets an fp32 input, with autocast disabled, and relies on `from_pretrained` keeping
its weights in fp32; `.to(dtype)` casts them. 5.0 casts the weights in the gate. 5.4.0 is left out:
its config validation refuses the config of this model. The linked pull request is no report of this
failure, but its claim about the gate is checked here.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Ernie4_5_MoeConfig, Ernie4_5_MoeForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
EXPERTS = {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16}
SHARED = {"moe_num_shared_experts": 1, "moe_layer_start_index": 1, "moe_layer_end_index": 1}
WORKAROUNDS = {"", "gate-fp32", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast"
    config = Ernie4_5_MoeConfig(**SIZES, **HEADS, **EXPERTS, **SHARED)
    model = Ernie4_5_MoeForCausalLM(config).eval()
    model.to(device, torch.float32 if autocast else dtype)
    gates = [module for name, module in model.named_modules() if name.endswith("mlp.gate")]
    assert gates, "no sparse layer"
    if workaround == "gate-fp32":
        for gate in gates:
            gate.float()
    with torch.autocast(device, dtype) if autocast else nullcontext():
        logits = model(input_ids=torch.arange(5, 13, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
