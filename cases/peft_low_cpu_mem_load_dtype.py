# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "PEFT adapter loaded with low_cpu_mem_usage: modules_to_save in another dtype, mismatch"
# reports = ["https://github.com/huggingface/peft/pull/3509"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every adapter with modules_to_save that was saved in another dtype than the model has onto which
# it is loaded; adapters without them cannot meet it: their weights are cast afterwards."""
# trigger = ["load", "adapter"]
# symptom = ["error", "wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# plain-load = "Load the adapter without low_cpu_mem_usage=True."
# cast-after-load = "Call .to(dtype) on the model once the adapter is loaded."
#
# [tool.repromatrix.snippets]
# plain-load = "model = PeftModel.from_pretrained(base, folder, low_cpu_mem_usage=False)"
# cast-after-load = "model.to(dtype)  # after PeftModel.from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = [
#     "peft.utils.other:ModulesToSaveWrapper.forward",
#     "peft.utils.other:ModulesToSaveWrapper._forward_wrapped",
# ]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3509"
# says = "An fp32 checkpoint with modules_to_save, loaded onto a bf16 model, fails."
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3509"
# says = "Without low_cpu_mem_usage the forward pass succeeds."
# precisions = ["bf16"]
# workaround = "plain-load"
# outcome = "passes"
# ///
"""An adapter that was trained in fp32 must run on a 16-bit model, also with low_cpu_mem_usage=True.

With it, the weights of the file are put in place of those of the model, in the dtype of the file.
Of the adapter's own weights the dtype is set right afterwards; those of modules that are saved
whole stay in fp32 and get 16-bit states.
"""

import os
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "plain-load", "cast-after-load"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, **LAYERS)
    lora = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["lm_head"])
    base = LlamaForCausalLM(config).to(device, dtype)
    with tempfile.TemporaryDirectory() as folder:
        get_peft_model(LlamaForCausalLM(config), lora).save_pretrained(folder)
        lazy = workaround != "plain-load"
        model = PeftModel.from_pretrained(base, folder, low_cpu_mem_usage=lazy)
    if workaround == "cast-after-load":
        model.to(dtype)
    kept = model.base_model.model.lm_head.modules_to_save["default"].weight
    measured["head_in_fp32"] = float(kept.dtype == torch.float32)
    logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
