# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Llama with fp32 norms and 16-bit weights: dtype mismatch without autocast"
# reports = [
#     "https://github.com/huggingface/transformers/issues/30236",
#     "https://github.com/huggingface/peft/issues/1515",
#     "https://github.com/huggingface/trl/issues/1202",
#     "https://github.com/huggingface/trl/pull/1203",
#     "https://github.com/axolotl-ai-cloud/axolotl/issues/473",
# ]
# kind = "policy"
# area = "normalisation"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model whose RMSNorm casts to the input's dtype before it multiplies by its weight, as
# Llama's; a norm that casts after that cannot meet it."""
# trigger = ["cast", "forward"]
# symptom = ["error"]
# simulates = """
# The norms are upcast by the loop of trl's peft_module_casting_to_bf16, as trl is in none of the \
# environments; its other branch does nothing to 16-bit weights."""
#
# [tool.repromatrix.workarounds]
# autocast = "Run the model under torch.autocast."
# cast-norms = "Cast the norms back to the dtype of the model."
# cast-results = "Cast the output of every norm to the dtype of the model in a hook."
#
# [tool.repromatrix.snippets]
# autocast = '''
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
# cast-norms = '''
# for name, module in model.named_modules():
#     if "norm" in name:
#         module.to(dtype)'''
# cast-results = '''
# for name, module in model.named_modules():
#     if "norm" in name:
#         module.register_forward_hook(lambda _, __, out: out.to(dtype))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype",
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "transformers.models.llama.modeling_llama:LlamaAttention.forward"
# note = "The norm casts to the dtype of its input before it multiplies by its weight, not after."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/30236"
# says = "With an fp32 weight LlamaRMSNorm returns fp32 for a bfloat16 input."
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/trl/pull/1203"
# says = "Under autocast norms in fp32 do no harm."
# precisions = ["bf16"]
# workaround = "autocast"
# outcome = "passes"
# ///
"""A 16-bit Llama whose norms are upcast to fp32 must run, and give about the same logits.

Without autocast it raises in the projection behind the norm: LlamaRMSNorm casts to the dtype of its
input before it multiplies by its fp32 weight, and returns fp32. Users get there by trl's
`peft_module_casting_to_bf16`, or a loop like it, and a forward pass or `generate` outside of the
Trainer's autocast. peft's `prepare_model_for_kbit_training` alone does not lead there: it upcasts
every 16-bit weight, not only the norms.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "autocast", "cast-norms", "cast-results"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).eval().to(device, dtype)
    ids = torch.arange(5, 13, device=device)[None]
    before = model(input_ids=ids).logits.float()
    norms = [module for name, module in model.named_modules() if "norm" in name]
    for norm in norms:  # as trl's peft_module_casting_to_bf16 does
        norm.float()
        if workaround == "cast-norms":
            norm.to(dtype)
        if workaround == "cast-results":
            norm.register_forward_hook(lambda _, __, out: out.to(dtype))
    with torch.autocast(device, dtype) if workaround == "autocast" else nullcontext():
        after = model(input_ids=ids).logits.float()
    measured["relative_error"] = ((after - before).norm() / before.norm()).item()
    assert measured["relative_error"] < 0.05, "other logits than before the norms were upcast"


if __name__ == "__main__":
    main(*sys.argv[1:])
