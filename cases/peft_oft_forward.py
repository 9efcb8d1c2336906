# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "OFT adapter on a bf16 or fp16 model fails in the forward pass: dtype mismatch"
# reports = [
#     "https://github.com/huggingface/peft/pull/2433",
#     "https://github.com/hiyouga/LlamaFactory/issues/9050",
# ]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model with an OFT adapter run without autocast; fp32 models cannot meet it:
# rotation and identity are both fp32."""
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
# workarounds = ["", "adapter-16bit"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "peft.tuners.oft.layer:Linear.forward"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/hiyouga/LlamaFactory/issues/9050"
# says = "Training with OFT fails on transformers 4.51.3 with peft 0.15.2."
# when = ["transformers==4.51.3", "peft==0.15.2"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "Every PEFT method works with a 16-bit base model once inputs are cast to the adapter."
# when = ["peft>=0.16"]
# outcome = "passes"
# ///
"""A 16-bit model must run a forward pass with an OFT adapter.

Up to peft 0.15 it raised: the rotation is built in fp32 and was multiplied by an identity matrix
in the dtype of the input. Keeping the adapter in 16 bit did not help.
"""

import os
import sys
from contextlib import nullcontext

import torch
from peft import OFTConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-16bit", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = OFTConfig(r=0, oft_block_size=4, target_modules=["q_proj"])
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    half = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if half else nullcontext():
        logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
