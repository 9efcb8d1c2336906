# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Merging and unmerging a LoRA adapter over and over changes the weights of a 16-bit model"
# reports = ["https://github.com/huggingface/trl/issues/6688"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model whose LoRA adapter is merged and unmerged during training, as before each
# round of generation; fp32 models cannot meet it to a degree that shows."""
# trigger = ["cast", "adapter"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# restore = "Keep a copy of the weights, and restore it after each unmerge."
# base-fp32 = "Cast the model to fp32 before the first merge, and keep it in fp32."
#
# [tool.repromatrix.snippets]
# restore = '''
# copied = weight.detach().clone()  # before the first merge, of each weight
# weight.data.copy_(copied)  # after each unmerge'''
# base-fp32 = "model.float()  # before the first merge"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the weights of the model are others"
# where = "peft_unmerge_drift:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/trl/issues/6688"
# says = "The weights of a bf16 model drift with each round of merging and unmerging."
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/trl/issues/6688"
# says = "Those of an fp16 model drift as well, by less."
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/trl/issues/6688"
# says = "Those of an fp32 model do not."
# precisions = ["fp32"]
# outcome = "passes"
# ///
"""A model must have the weights that it had, after an adapter is merged and unmerged.

Merging rounds the sum of weight and change to 16 bit, unmerging subtracts the change from what
was rounded and rounds again. The errors of 100 rounds add up: `logits_relative_error` is how far
the model with its adapter disabled is from the model before the first merge, both computed in
fp32.
"""

import copy
import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
ROUNDS = 100
WORKAROUNDS = {"", "restore", "base-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    base = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    ids = torch.randint(0, 99, (2, 8), device=device)
    before = copy.deepcopy(base).float()(input_ids=ids).logits
    weight = base.lm_head.weight
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["lm_head"]))
    if workaround == "base-fp32":
        model.float()
    copied = weight.detach().clone()
    for _ in range(ROUNDS):
        for name, one in model.named_parameters():
            if "lora_B" in name:
                one.data.add_(torch.randn_like(one), alpha=0.02)
        model.merge_adapter()
        model.unmerge_adapter()
        if workaround == "restore":
            weight.data.copy_(copied)
    with model.disable_adapter():
        assert model(input_ids=ids).logits.isfinite().all(), "non-finite logits"
        off = model.float()(input_ids=ids).logits - before
    measured["logits_relative_error"] = (off.norm() / before.norm()).item()
    assert measured["logits_relative_error"] < 0.001, "the weights of the model are others"


if __name__ == "__main__":
    main(*sys.argv[1:])
