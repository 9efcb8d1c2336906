# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on dt_proj of Jamba does nothing until it is merged"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["jamba"]
# same-code = ["mamba", "falcon-mamba"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers", "not-trained"]
#
# [tool.repromatrix.workarounds]
# no-dt-proj = "Leave dt_proj out of target_modules."
#
# [tool.repromatrix.snippets]
# no-dt-proj = 'lora = LoraConfig(target_modules=["in_proj"])  # without dt_proj'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.15.0"]
# raises = "AssertionError"
# match = "the merged adapter computes something else"
# where = "jamba_lora_dt_proj:main"
# ///
"""A LoRA adapter must compute the same before and after it is merged.

Since 5.15 it does not: the mixer multiplies with `self.dt_proj.weight` instead of calling the
layer, as the bias is added later. An adapter there, which "all-linear" makes too, then has no
effect and no gradient, without a warning. Before, the layer was called.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import JambaConfig, JambaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "mamba_d_state": 4}
LAYERS = {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}
EXPERTS = {"num_experts": 1, "num_experts_per_tok": 1}
WORKAROUNDS = {"", "no-dt-proj"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = JambaConfig(**SIZES, **HEADS, **LAYERS, **EXPERTS, initializer_range=0.1)
    model = JambaForCausalLM(config).to(device, dtype)
    names = ["in_proj"] if workaround == "no-dt-proj" else ["in_proj", "dt_proj"]
    lora = LoraConfig(r=4, lora_alpha=16, target_modules=names, init_lora_weights=False)
    model = get_peft_model(model, lora).eval()
    ids = torch.arange(5, 21, device=device)[None]
    with torch.no_grad():
        before = model(input_ids=ids, use_cache=False).logits.float()
        after = model.merge_and_unload()(input_ids=ids, use_cache=False).logits.float()
    measured["logits_relative_error"] = ((after - before).norm() / after.norm()).item()
    assert measured["logits_relative_error"] < 0.1, "the merged adapter computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
