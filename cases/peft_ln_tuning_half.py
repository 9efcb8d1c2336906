# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LN tuning of a bf16 or fp16 model fails in the first layer after a norm: dtype mismatch"
# reports = ["https://github.com/huggingface/peft/pull/2433"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model whose norms are tuned with LNTuningConfig and that is run without
# autocast."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["error"]
# environments = ["4.53.3+peft0.15.2"]
#
# [tool.repromatrix.workarounds]
# adapter-16bit = "Pass autocast_adapter_dtype=False, so that the tuned norms keep their dtype."
# autocast = "Run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# adapter-16bit = "model = get_peft_model(model, config, autocast_adapter_dtype=False)"
# autocast = '''
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
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
# where = "transformers.models.llama.modeling_llama:LlamaMLP.forward"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "LN tuning is not upcast any more, for it copies layers of the model and adds none."
# when = ["peft>=0.16"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A 16-bit model must run a forward pass while its norms are tuned with LNTuningConfig.

Up to peft 0.15 it raised: what LN tuning trains is a copy of each norm, which was upcast to fp32
as the weights of other adapters are. A norm in fp32 returns fp32, into a projection in 16 bit.
"""

import os
import sys
from contextlib import nullcontext

import torch
from peft import LNTuningConfig, get_peft_model
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
    config = LNTuningConfig(target_modules=["post_attention_layernorm"])
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    half = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if half else nullcontext():
        logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
