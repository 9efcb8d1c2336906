# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "merge_and_unload into a 16-bit model rounds a small LoRA away"
# reports = ["https://github.com/huggingface/peft/issues/1388"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model into which an adapter is merged that changes its weights by little, as after
# a short training; fp32 models cannot meet it to a degree that shows."""
# trigger = ["cast", "adapter"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# merge-fp32 = "Cast the model to fp32 before the merge, and keep it in fp32."
# unmerged = { says = "Do not merge the adapter.", skips = true }
#
# [tool.repromatrix.snippets]
# merge-fp32 = "model.float()  # before merge_and_unload"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "merging lost a part of what the adapter changes"
# where = "peft_merge_rounds_delta:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/1388"
# says = "merge_and_unload of a bf16 model changes what it computes."
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A model must change by a LoRA adapter that is merged as it does by the adapter beside it.

The change of each weight is cast to 16 bit and added to the weight, and the sum rounded to 16 bit
again. A change of less than half a unit in the last place of a weight is lost: `effect_error` is
what is wrong with the logits, as a share of what the adapter changes. Both are computed in fp32.
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
WORKAROUNDS = {"", "merge-fp32", "unmerged"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    base = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    ids = torch.randint(0, 99, (2, 8), device=device)
    plain = copy.deepcopy(base).float()(input_ids=ids).logits
    model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
    for name, one in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one, std=2e-5)
    wanted = copy.deepcopy(model).float()(input_ids=ids).logits
    if workaround == "merge-fp32":
        model.float()
    merged = model if workaround == "unmerged" else model.merge_and_unload()
    assert merged(input_ids=ids).logits.isfinite().all(), "non-finite logits"
    off = (merged.float()(input_ids=ids).logits - wanted).norm()
    measured["logits_relative_error"] = (off / wanted.norm()).item()
    measured["effect_error"] = (off / (wanted - plain).norm()).item()
    assert measured["effect_error"] < 0.05, "merging lost a part of what the adapter changes"


if __name__ == "__main__":
    main(*sys.argv[1:])
