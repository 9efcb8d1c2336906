# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Cohere 2 ignores the sliding_window_pattern of its config"
# reports = []
# found-by = "sweep"
# area = "config"
# models = ["cohere2"]
# trigger = ["load", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# layer-types = "Name the types of all layers in layer_types."
#
# [tool.repromatrix.snippets]
# layer-types = '''
# types = ["sliding_attention", "full_attention"]  # one for each layer
# config = Cohere2Config(**options, layer_types=types)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0,<5.4.0"]
# raises = "AssertionError"
# match = "the layers are others than the config says"
# where = "cohere2_window_pattern_ignored:main"
#
# [[tool.repromatrix.fails]]
# title = "Cohere 2 in 5.4 cannot be built: Field 'use_cache' expected int, got bool"
# at-fault = "transformers"
# when = ["transformers>=5.4.0,<5.5.0"]
# workarounds = ["*"]
# raises = "StrictDataclassFieldValidationError"
# match = "TypeError: Field 'use_cache' expected int, got bool (value: True)"
# where = "huggingface_hub.dataclasses:strict.<locals>.wrap.<locals>.__strict_setattr__"
# note = "Another bug: 5.4 declares the field as an int."
# ///
"""Cohere 2 must have a layer of full attention as often as sliding_window_pattern says.

Configs of 4.52 and older have this number alone. From 5.0 to 5.3 `Cohere2Config.__init__` asks for
it with getattr before the constructor of the base class has set it, and takes every fourth layer.
The last layer of this model is then a sliding one, with rotary positions, where its config says a
full one without. The exact logits come from the same weights with the layers named one by one.
"""

import os
import sys

import torch
from transformers import Cohere2Config, Cohere2ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2, "sliding_window": 4}
NAMED = {"layer_types": ["sliding_attention", "full_attention"]}
WORKAROUNDS = {"", "layer-types"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    named = NAMED if workaround == "layer-types" else {}
    model = Cohere2ForCausalLM(Cohere2Config(**SIZES, sliding_window_pattern=2, **named)).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    other = Cohere2ForCausalLM(Cohere2Config(**SIZES, sliding_window_pattern=2, **NAMED)).eval()
    other.load_state_dict(model.state_dict())
    ids = torch.randint(5, 90, (1, 12), device=device)
    found = model.to(device, dtype)(ids).logits.double()
    exact = other.to(device, dtype)(ids).logits.double()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.05, "the layers are others than the config says"


if __name__ == "__main__":
    main(*sys.argv[1:])
