# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.18"]
#
# [tool.repromatrix]
# title = "Merging an OSF adapter leaves fp32 weights in a 16-bit model: dtype mismatch"
# reports = []
# found-by = "measurement"
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model into which an OSF adapter is merged; adapters kept in the model's dtype
# cannot meet it: their product stays 16 bit."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["error", "wrong-dtype"]
# environments = ["5.16.1+peft0.21.2"]
#
# [tool.repromatrix.workarounds]
# adapter-16bit = "Pass autocast_adapter_dtype=False, so that the adapter keeps the model's dtype."
# cast-after-merge = "Call .to(dtype) on the merged model."
#
# [tool.repromatrix.snippets]
# adapter-16bit = "model = get_peft_model(model, config, autocast_adapter_dtype=False)"
# cast-after-merge = '''
# merged = model.merge_and_unload()
# merged.to(dtype)'''
#
# [[tool.repromatrix.fails]]
# at-fault = "peft"
# when = ["peft>=0.19,<0.21"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "transformers.models.llama.modeling_llama:LlamaAttention.forward"
# note = "Broken when OSF's own cast to the model's dtype gave way to the general one to fp32 (peft#2893)."
# ///
"""A 16-bit model must run a forward pass after an OSF adapter is merged into it.

In peft 0.19 and 0.20 it raised: the factors of the weight are upcast to fp32 like any adapter, and
their product, which replaces the weight, stayed in fp32, while the input is in 16 bit. 0.18 cast
them to the dtype of the model; 0.21 adds the difference to the weight, and casts the sum.
"""

import os
import sys

import torch
from peft import OSFConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-16bit", "cast-after-merge"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = OSFConfig(effective_rank=4, target_modules=["q_proj"])
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    merged = model.merge_and_unload()
    if workaround == "cast-after-merge":
        merged.to(dtype)
    measured["fp32_weights"] = sum(p.dtype == torch.float32 for p in merged.parameters())
    logits = merged(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
