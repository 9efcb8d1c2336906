# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on all linear layers of Llama 4 and Phi-3.5-MoE: 'tuple' has no attribute 'dtype'"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["llama4", "phimoe"]
# variants = ["llama4", "phimoe"]
# trigger = ["adapter"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# exclude-router = "Pass exclude_modules=['router'] beside 'all-linear'."
#
# [tool.repromatrix.snippets]
# exclude-router = 'lora = LoraConfig(target_modules="all-linear", exclude_modules=["router"])'
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.54.0"]
# variants = ["llama4"]
# raises = "AttributeError"
# match = "'tuple' object has no attribute 'dtype'"
# where = "peft.tuners.lora.layer:Linear.forward"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=5.0.0,<5.4.0"]
# variants = ["phimoe"]
# raises = "AttributeError"
# match = "'tuple' object has no attribute 'dtype'"
# where = "peft.tuners.lora.layer:Linear.forward"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=5.5.0"]
# variants = ["phimoe"]
# raises = "AttributeError"
# match = "'tuple' object has no attribute 'dtype'"
# where = "peft.tuners.lora.layer:Linear.forward"
#
# [[tool.repromatrix.fails]]
# title = "Phi-3.5-MoE in 5.4 cannot be built: Field 'tie_word_embeddings' expected int, got bool"
# at-fault = "transformers"
# when = ["transformers>=5.4.0,<5.5.0"]
# workarounds = ["*"]
# variants = ["phimoe"]
# raises = "StrictDataclassFieldValidationError"
# match = "TypeError: Field 'tie_word_embeddings' expected int, got bool (value: False)"
# where = "huggingface_hub.dataclasses:strict.<locals>.wrap.<locals>.__strict_setattr__"
# ///
"""A model with a LoRA adapter on all its linear layers must run a forward pass.

`Llama4Router` and `PhimoeTopKRouter` inherit from `torch.nn.Linear` and return a tuple.
"all-linear" takes them for linear layers, and the layer of peft asks their result for its dtype.
The routers were plain linear layers until 4.53 (Llama 4) and 4.57 (PhiMoE).
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 2}
FAMILIES = {
    "llama4": ("llama4_text", {"head_dim": 8, "intermediate_size_mlp": 32}),
    "phimoe": ("phimoe", {}),
}
WORKAROUNDS = {"", "exclude-router"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    family, own = FAMILIES[os.environ.get("REPRO_VARIANT", "llama4")]
    config = AutoConfig.for_model(family, **SIZES, **HEADS, **own, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config).to(device, dtype)
    lora = LoraConfig(
        r=4,
        target_modules="all-linear",
        exclude_modules=["router"] if workaround == "exclude-router" else None,
    )
    model = get_peft_model(model, lora).eval()
    logits = model(input_ids=torch.arange(5, 13, device=device)[None]).logits
    assert logits.shape == (1, 8, 99), "the logits are not those of eight tokens"


if __name__ == "__main__":
    main(*sys.argv[1:])
