# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Zamba with a LoRA adapter on its shared block computes something else once merged"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["zamba"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# leave-out = "Adapt no layer of the shared block: list target_modules without them."
# untied = "Give each adapted layer a copy of its weight before merging."
#
# [tool.repromatrix.snippets]
# leave-out = 'config = LoraConfig(target_modules=["linear"])  # no layer of the shared block'
# untied = '''
# for module in model.modules():
#     if hasattr(module, "base_layer"):
#         copied = module.base_layer.weight.clone()
#         module.base_layer.weight = torch.nn.Parameter(copied)
# model = model.merge_and_unload()'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "merging the adapter changes the logits"
# where = "zamba_lora_merge_shared:main"
# ///
"""Zamba must compute the same before and after an adapter is merged into it.

In transformers 4 the hybrid layers held one module. Since 5.0 `ZambaModel` gives each a module of
its own and ties the weights, so that LoRA gives each an adapter. `merge_and_unload` adds every
adapter to the one weight that they share: each layer gets those of the others, too, unwarned.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import ZambaConfig, ZambaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 32, "mamba_dt_rank": 4}
LAYERS = {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 0}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "n_mamba_heads": 2}
MAMBA = {"use_mamba_kernels": False, "mamba_d_state": 8, "initializer_range": 0.1}
WORKAROUNDS = {"", "leave-out", "untied"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = ZambaForCausalLM(ZambaConfig(**SIZES, **LAYERS, **HEADS, **MAMBA)).to(device, dtype)
    targets = ["linear"] if workaround == "leave-out" else ["q_proj", "v_proj", "up_proj"]
    config = LoraConfig(r=4, lora_alpha=64, target_modules=targets, init_lora_weights=False)
    adapted = get_peft_model(model, config).eval()
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.no_grad():
        wanted = adapted(ids).logits.float()
        if workaround == "untied":
            for module in adapted.modules():
                if hasattr(module, "base_layer"):
                    copied = module.base_layer.weight.clone()
                    module.base_layer.weight = torch.nn.Parameter(copied)
        found = adapted.merge_and_unload()(ids).logits.float()
    measured["logits_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["logits_relative_error"] < 0.05, "merging the adapter changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
