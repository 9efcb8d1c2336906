# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Merging a DoRA adapter leaves fp32 weights in a 16-bit model: dtype mismatch"
# reports = ["https://github.com/huggingface/peft/pull/2433"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model into which a DoRA adapter is merged; plain LoRA cannot meet it: it adds in
# place and keeps the dtype."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["error", "wrong-dtype"]
# environments = ["4.53.3+peft0.15.2"]
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
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "transformers.models.llama.modeling_llama:LlamaAttention.forward"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "Merging keeps the dtype of the base model with every PEFT method."
# when = ["peft>=0.16"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A 16-bit model must run a forward pass after a DoRA adapter is merged into it.

Up to peft 0.15 it raised: the fp32 magnitude of the adapter upcast the merged weight, which was
not cast back, and the layer got a 16-bit input. Plain LoRA adds in place and keeps the dtype.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
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
    config = LoraConfig(r=4, use_dora=True, target_modules=["q_proj"], init_lora_weights=False)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    merged = model.merge_and_unload()
    if workaround == "cast-after-merge":
        merged.to(dtype)
    measured["fp32_weights"] = sum(p.dtype == torch.float32 for p in merged.parameters())
    logits = merged(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
