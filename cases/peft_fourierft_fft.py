# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "FourierFT adapter in bf16 or fp16 fails in the inverse FFT: 'Unsupported dtype'"
# reports = ["https://github.com/huggingface/peft/pull/2433"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a FourierFT adapter that is kept in 16 bit; adapters in fp32, the default,
# cannot meet it: the FFT then runs in fp32."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["error"]
# environments = ["4.53.3+peft0.15.2"]
#
# [tool.repromatrix.workarounds]
# adapter-fp32 = "Leave autocast_adapter_dtype at its default, which keeps the adapter in fp32."
#
# [tool.repromatrix.snippets]
# adapter-fp32 = "model = get_peft_model(model, config, autocast_adapter_dtype=True)"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16"]
# raises = "RuntimeError"
# match = "Unsupported dtype BFloat16"
# where = "peft.tuners.fourierft.layer:FourierFTLayer.get_delta_weight"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["fp16"]
# devices = ["cpu"]
# raises = "RuntimeError"
# match = "Unsupported dtype Half"
# where = "peft.tuners.fourierft.layer:FourierFTLayer.get_delta_weight"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
# note = "By its documentation torch.fft takes Half on CUDA, for lengths that are powers of two."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2433"
# says = "An adapter that is kept in 16 bit with autocast_adapter_dtype=False works as well."
# when = ["peft>=0.16"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A FourierFT adapter that is kept in the 16-bit dtype of its model must run a forward pass.

Up to peft 0.15 it raised: its spectrum was passed to torch.fft in that dtype, which is not
supported, instead of being upcast to fp32 for the transform.
"""

import os
import sys

import torch
from peft import FourierFTConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-fp32"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = FourierFTConfig(n_frequency=8, target_modules=["q_proj"])
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround == "adapter-fp32")
    logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
