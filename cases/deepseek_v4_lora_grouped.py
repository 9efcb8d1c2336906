# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.8", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "DeepSeek V4 fails with LoRA on all linear layers: one of them is a grouped product"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["deepseek_v4"]
# trigger = ["adapter"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# leave-out = "Pass exclude_modules=['o_a_proj'] beside 'all-linear'."
#
# [tool.repromatrix.snippets]
# leave-out = 'lora = LoraConfig(target_modules="all-linear", exclude_modules=["o_a_proj"])'
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=5.8.0"]
# raises = "RuntimeError"
# match = ") must match the size of tensor b"
# where = "peft.tuners.lora.layer:Linear.forward"
# ///
"""DeepSeek V4 must run a forward pass with LoRA on all of its linear layers.

`DeepseekV4GroupedLinear` inherits from nn.Linear, so that `target_modules="all-linear"` takes it,
but its forward multiplies each group of heads with rows of its own. The adapter multiplies each
group with all rows, and its result does not fit.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "moe_intermediate_size": 16, "q_lora_rank": 8}
HEADS = {"num_attention_heads": 4, "head_dim": 16, "o_groups": 2, "o_lora_rank": 8}
LAYERS = {"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "mlp_layer_types": ["moe"]}
EXPERTS = {"n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1}
WORKAROUNDS = {"", "leave-out"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = DeepseekV4Config(**SIZES, **HEADS, **LAYERS, **EXPERTS)
    model = DeepseekV4ForCausalLM(config).to(device, dtype)
    excluded = ["o_a_proj"] if workaround == "leave-out" else None
    lora = LoraConfig(r=4, target_modules="all-linear", exclude_modules=excluded)
    adapted = get_peft_model(model, lora).eval()
    logits = adapted(torch.randint(5, 90, (1, 8), device=device)).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
