# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.19"]
#
# [tool.repromatrix]
# title = "PEFT reduce_intruder_dimension fails in 16 bit: 'linalg_svd_cpu' not implemented"
# reports = ["https://github.com/huggingface/peft/pull/3410"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a LoRA adapter that is kept in 16 bit; adapters in fp32, the default, cannot
# meet it: the SVD then runs in fp32."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["error"]
# environments = ["5.14.1+peft0.20.0"]
#
# [tool.repromatrix.workarounds]
# adapter-fp32 = "Leave autocast_adapter_dtype at its default, which keeps the adapter in fp32."
# cast-first = "Call .float() on the model and cast it back to 16 bit afterwards."
#
# [tool.repromatrix.snippets]
# adapter-fp32 = "model = get_peft_model(model, config, autocast_adapter_dtype=True)"
# cast-first = '''
# model.float()  # before reduce_intruder_dimension
# model.to(dtype)  # after it'''
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.19,<0.20"]
# precisions = ["bf16", "fp16"]
# raises = ["NotImplementedError", "RuntimeError"]
# match = ["\"linalg_svd_cpu\" not implemented for", "\"svd_cuda_gesvdj"]
# where = "peft.tuners.lora.intruders:reduce_intruder_dimension"
# fixed-by = "https://github.com/huggingface/peft/pull/3410"
# note = "torch 2.6 raises RuntimeError."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3410"
# says = "With the change the reduction runs on fp16 and bf16 adapter weights."
# when = ["peft>=0.20"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""reduce_intruder_dimension must work for a LoRA adapter in 16 bit as for one in fp32.

In peft 0.19 it raised: only the base weight was upcast to fp32 before the singular value
decomposition; the merged weight, in 16 bit if the adapter is, was decomposed as it is.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.intruders import reduce_intruder_dimension
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-fp32", "cast-first"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround == "adapter-fp32")
    if workaround == "cast-first":
        model.float()
    reduce_intruder_dimension(model, logging_sink=None)
    if workaround == "cast-first":
        model.to(dtype)
    logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
