# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Merging a BOFT, OFT or HRA adapter into a 16-bit model fails: dtype mismatch"
# reports = ["https://github.com/huggingface/peft/pull/2433"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model into which a BOFT, OFT or HRA adapter is merged; plain LoRA cannot meet it:
# it adds to the weight, and multiplies nothing with it."""
# variants = ["boft", "oft", "hra"]
# trigger = ["cast", "adapter"]
# symptom = ["error"]
# environments = ["4.53.3+peft0.15.2"]
#
# [tool.repromatrix.workarounds]
# adapter-16bit = "Pass autocast_adapter_dtype=False, so that the adapter keeps the model's dtype."
# merge-fp32 = "Cast the model to fp32 before the merge, and back afterwards."
#
# [tool.repromatrix.snippets]
# adapter-16bit = "model = get_peft_model(model, config, autocast_adapter_dtype=False)"
# merge-fp32 = '''
# merged = model.float().merge_and_unload()
# merged.to(dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# workarounds = ["", "adapter-16bit"]
# variants = ["boft"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "peft.tuners.boft.layer:Linear.merge"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# workarounds = ["", "adapter-16bit"]
# variants = ["oft"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "peft.tuners.oft.layer:Linear.merge"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# variants = ["hra"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "peft.tuners.hra.layer:HRALinear.merge"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "Merging keeps the dtype of the base model with every PEFT method."
# when = ["peft>=0.16"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A BOFT, OFT or HRA adapter must be merged into a 16-bit model.

Up to peft 0.15 it raised: the matrix that the adapter multiplies the weight with is fp32, and the
weight was not cast. The rotations of BOFT and OFT are fp32 whatever dtype their factors have.
"""

import os
import sys

import torch
from peft import BOFTConfig, HRAConfig, OFTConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
TUNED = {"target_modules": ["q_proj"], "init_weights": False}
WORKAROUNDS = {"", "adapter-16bit", "merge-fp32"}


def configured(variant: str) -> BOFTConfig | OFTConfig | HRAConfig:
    if variant == "hra":
        return HRAConfig(r=4, **TUNED)
    if variant == "oft":
        return OFTConfig(r=0, oft_block_size=4, **TUNED)
    return BOFTConfig(boft_block_size=4, **TUNED)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    ids = torch.arange(8, device=device)[None]
    assert model(input_ids=ids).logits.isfinite().all(), "non-finite logits before the merge"
    config = configured(os.environ.get("REPRO_VARIANT", "boft"))
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    if workaround == "merge-fp32":
        model.float()
    merged = model.merge_and_unload()
    if workaround == "merge-fp32":
        merged.to(dtype)
    logits = merged(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
