# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "PEFT loads an adapter in fp32 that was saved in 16 bit; AutoPeftModel cannot prevent it"
# reports = ["https://github.com/huggingface/peft/issues/2421"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every adapter that is saved in 16 bit and loaded onto a 16-bit model; it costs memory and time
# and no precision."""
# kind = "policy"
# trigger = ["load", "adapter"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# no-autocast = "Load the model, then the adapter with autocast_adapter_dtype=False."
# auto-argument = "Pass autocast_adapter_dtype=False to AutoPeftModelForCausalLM."
# cast-after-load = "Call .to(dtype) on the loaded model."
#
# [tool.repromatrix.snippets]
# no-autocast = "model = PeftModel.from_pretrained(base, folder, autocast_adapter_dtype=False)"
# auto-argument = '''
# model = AutoPeftModelForCausalLM.from_pretrained(
#     folder, autocast_adapter_dtype=False
# )'''
# cast-after-load = "model.to(dtype)  # after from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the adapter is not in the dtype in which it was saved"
# where = "peft_reload_half_adapter:main"
#
# [[tool.repromatrix.fails]]
# title = "AutoPeftModel takes no argument autocast_adapter_dtype"
# at-fault = "peft"
# when = ["peft>=0.14"]
# workarounds = ["auto-argument"]
# raises = "TypeError"
# match = "got an unexpected keyword argument 'autocast_adapter_dtype'"
# where = "transformers.modeling_utils:PreTrainedModel.from_pretrained"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/2421"
# says = "An adapter that was saved in 16 bit is loaded in fp32."
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/2421"
# says = "PeftModel with autocast_adapter_dtype=False keeps the dtype."
# precisions = ["bf16", "fp16"]
# workaround = "no-autocast"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/2421"
# says = "AutoPeftModelForCausalLM does not support the argument."
# workaround = "auto-argument"
# outcome = "fails"
# ///
"""An adapter that was saved in 16 bit should be loaded in 16 bit onto a model of that dtype.

It is cast to fp32, as one that is created: this is documented. `autocast_adapter_dtype=False`
keeps it as it is; `AutoPeftModelForCausalLM` passes this argument on to the base model, which
refuses it in every precision.
"""

import os
import sys
import tempfile

import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "no-autocast", "auto-argument", "cast-after-load"}
measured: dict[str, float] = {}


def save_tiny(folder: str, dtype: torch.dtype) -> None:
    LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(dtype).save_pretrained(f"{folder}/base")
    base = LlamaForCausalLM.from_pretrained(f"{folder}/base", torch_dtype=dtype)
    config = LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(base, config, autocast_adapter_dtype=False).save_pretrained(f"{folder}/adapter")


def load(folder: str, dtype: torch.dtype, workaround: str) -> PeftModel:
    keep = {"autocast_adapter_dtype": False}
    if workaround == "no-autocast":
        base = LlamaForCausalLM.from_pretrained(f"{folder}/base", torch_dtype=dtype)
        return PeftModel.from_pretrained(base, f"{folder}/adapter", **keep)
    options = keep if workaround == "auto-argument" else {}
    options["torch_dtype"] = dtype
    return AutoPeftModelForCausalLM.from_pretrained(f"{folder}/adapter", **options)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    with tempfile.TemporaryDirectory() as folder:
        save_tiny(folder, dtype)
        model = load(folder, dtype, workaround).to(device)
    if workaround == "cast-after-load":
        model.to(dtype)
    logits = model(input_ids=torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"
    weights = [one for name, one in model.named_parameters() if "lora_" in name]
    measured["other_dtypes"] = sum(one.dtype != dtype for one in weights)
    assert measured["other_dtypes"] == 0, "the adapter is not in the dtype in which it was saved"


if __name__ == "__main__":
    main(*sys.argv[1:])
