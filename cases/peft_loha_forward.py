# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoHa or LoKr adapter on a bf16 or fp16 model fails in the forward pass: dtype mismatch"
# reports = ["https://github.com/huggingface/peft/pull/2433"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model with a LoHa or LoKr adapter that is run without autocast; plain LoRA cannot
# meet it: it casts its input to the dtype of the adapter."""
# variants = ["loha", "lokr"]
# trigger = ["load", "cast", "adapter"]
# symptom = ["error"]
# environments = ["4.53.3+peft0.15.2"]
#
# [tool.repromatrix.workarounds]
# adapter-16bit = "Pass autocast_adapter_dtype=False, so that the adapter keeps the model's dtype."
# autocast = "Run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# adapter-16bit = "model = get_peft_model(model, config, autocast_adapter_dtype=False)"
# autocast = '''
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# variants = ["loha"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "peft.tuners.loha.layer:Linear._get_delta_activations"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# variants = ["lokr"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "peft.tuners.lokr.layer:Linear._get_delta_activations"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "Every PEFT method works with a 16-bit model once inputs are cast to the adapter."
# when = ["peft>=0.16"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "An adapter that is kept in 16 bit with autocast_adapter_dtype=False works as well."
# when = ["peft>=0.16"]
# precisions = ["bf16", "fp16"]
# workaround = "adapter-16bit"
# outcome = "passes"
# ///
"""A 16-bit model must run a forward pass with a LoHa or LoKr adapter.

Up to peft 0.15 it raised: the weights of the adapter are upcast to fp32, and the 16-bit input of
the layer was multiplied with their product as it was.
"""

import os
import sys
from contextlib import nullcontext

import torch
from peft import LoHaConfig, LoKrConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CONFIGS = {"loha": LoHaConfig, "lokr": LoKrConfig}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-16bit", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    variant = os.environ.get("REPRO_VARIANT", "loha")
    config = CONFIGS[variant](r=4, target_modules=["q_proj"], init_weights=False)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    half = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if half else nullcontext():
        logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
