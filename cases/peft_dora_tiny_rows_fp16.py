# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "DoRA in fp16 gives NaN where a row of the base weight rounds to zero"
# reports = [
#     "https://github.com/huggingface/peft/issues/2049",
#     "https://github.com/huggingface/peft/pull/3237",
# ]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a DoRA adapter on a layer with pruned or dead rows; plain LoRA cannot meet it:
# it divides by no norm."""
# trigger = ["cast", "adapter"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# plain-lora = { says = "Use LoRA without use_dora.", skips = true }
# fill-rows = "Fill the rows of zeros with small numbers before the adapter is created."
#
# [tool.repromatrix.snippets]
# plain-lora = 'config = LoraConfig(target_modules=["o_proj"], use_dora=False)'
# fill-rows = "weight.data[weight.data.norm(dim=1) == 0] = 1e-3  # before get_peft_model"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "the adapted model returns NaN"
# where = "peft_dora_tiny_rows_fp16:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3237"
# says = "Rows that round to zero in fp16 give NaN in the first forward pass."
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3237"
# says = "Plain LoRA on the same layer is not affected."
# precisions = ["fp16"]
# workaround = "plain-lora"
# outcome = "passes"
# ///
"""A DoRA adapter must return finite outputs, whatever rows the weight that it adapts has.

DoRA divides the magnitude of every row by the norm of the row. A row below the least number of
fp16 becomes zero by the cast: both are 0, and the output is NaN before any training. Llama 3.1 8B
has such rows; those of exact zeros, which are not shown here, fail in every precision.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "plain-lora", "fill-rows"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS))
    weight = model.model.layers[0].self_attn.o_proj.weight
    weight.data[::8] *= 1e-7
    model.to(device, dtype)
    if workaround == "fill-rows":
        weight.data[weight.data.norm(dim=1) == 0] = 1e-3
    config = LoraConfig(r=4, target_modules=["o_proj"], use_dora=workaround != "plain-lora")
    model = get_peft_model(model, config)
    logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    measured["nonfinite_share"] = 1 - logits.isfinite().float().mean().item()
    assert measured["nonfinite_share"] == 0, "the adapted model returns NaN"


if __name__ == "__main__":
    main(*sys.argv[1:])
