# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Gemma 3n trains without the LoRA adapters of its AltUp correction coefficients"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["gemma3n"]
# trigger = ["adapter", "backward"]
# symptom = ["not-trained", "wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# leave-out = "List target_modules without correction_coefs."
#
# [tool.repromatrix.snippets]
# leave-out = 'lora = LoraConfig(target_modules=["q_proj", "o_proj", "prediction_coefs"])'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.2.0"]
# raises = "AssertionError"
# match = "training passes the adapters by"
# where = "gemma3n_lora_altup_training:main"
# ///
"""A model without dropout must compute the same in training as in eval mode.

In training, `Gemma3nTextAltUp.correct` clamps `correction_coefs.weight` and multiplies with it
instead of calling the layer. LoRA on all linear layers puts an adapter there: training passes it
by, so that it gets no gradient, while inference adds it.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import Gemma3nForCausalLM, Gemma3nTextConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "vocab_size_per_layer_input": 99, "hidden_size": 32, "laurel_rank": 2}
LAYERS = {"num_hidden_layers": 2, "num_kv_shared_layers": 0, "layer_types": ["full_attention"] * 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
REST = {"intermediate_size": [32, 32], "activation_sparsity_pattern": [0.0, 0.0]}
WIDTHS = {"hidden_size_per_layer_input": 8, "initializer_range": 0.5}
LINEAR = ["q_proj", "o_proj", "prediction_coefs"]
WORKAROUNDS = {"", "leave-out"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Gemma3nForCausalLM(Gemma3nTextConfig(**SIZES, **LAYERS, **HEADS, **REST, **WIDTHS))
    model.to(device, dtype)
    targets = LINEAR if workaround == "leave-out" else [*LINEAR, "correction_coefs"]
    lora = LoraConfig(r=4, lora_alpha=64, target_modules=targets, init_lora_weights=False)
    adapted = get_peft_model(model, lora)
    ids = torch.randint(5, 90, (1, 8), device=device)
    wanted = adapted.eval()(ids).logits.detach().float()
    found = adapted.train()(ids).logits.float()
    found.square().mean().backward()
    adapters = [p for name, p in adapted.named_parameters() if "lora_B" in name]
    measured["idle_adapters"] = sum(p.grad is None for p in adapters)
    measured["logits_relative_error"] = float((found - wanted).detach().norm() / wanted.norm())
    assert measured["logits_relative_error"] < 0.03, "training passes the adapters by"


if __name__ == "__main__":
    main(*sys.argv[1:])
