# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5"]
#
# [tool.repromatrix]
# title = "Olmo 3 ignores the rotary parameters of a config that 5.0 to 5.12 saved"
# reports = []
# found-by = "sweep"
# area = "config"
# models = ["olmo3"]
# trigger = ["load", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# by-layer-type = "Write the parameters under each type of layer that config.rope_parameters has."
#
# [tool.repromatrix.snippets]
# by-layer-type = '''
# for kind in set(config.layer_types) & set(config.rope_parameters):
#     config.rope_parameters[kind] = dict(saved)'''
#
# [[tool.repromatrix.fails]]
# title = "Olmo 3 in 5.4 cannot be built: Field 'tie_word_embeddings' expected int, got bool"
# at-fault = "transformers"
# when = ["transformers>=5.4.0,<5.5.0"]
# workarounds = ["*"]
# raises = "StrictDataclassFieldValidationError"
# match = "TypeError: Field 'tie_word_embeddings' expected int, got bool (value: False)"
# where = "huggingface_hub.dataclasses:strict.<locals>.wrap.<locals>.__strict_setattr__"
# note = "Another bug: 5.4 declares the field as an int."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.13.0,<5.17.0"]
# raises = "AssertionError"
# match = "the config's rotary parameters are not used"
# where = "olmo3_flat_rope_ignored:main"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.18.0"]
# raises = "AssertionError"
# match = "the config's rotary parameters are not used"
# where = "olmo3_flat_rope_ignored:main"
#
# [[tool.repromatrix.fails]]
# title = "Olmo 3 in 5.17 refuses flat rotary parameters: 'str' object has no attribute 'get'"
# when = ["transformers>=5.17.0,<5.18.0"]
# workarounds = ["*"]
# raises = "AttributeError"
# match = "'str' object has no attribute 'get'"
# where = "transformers.modeling_rope_utils:RotaryEmbeddingConfigMixin.validate_rope"
# note = "Another bug: 5.17 builds no such config."
# ///
"""Olmo 3 must turn by the theta that its config names, however the config writes it.

5.0 to 5.12 save one dict of rotary parameters for all layers. Since 5.13 (transformers#46911)
`Olmo3Config.convert_rope_params_to_dict` looks in it for the types of layers, finds none, and gives
both theta 500000 without scaling. What was saved stays beside them, unread. A model that was trained
with another theta computes other logits after an update, without a warning.
"""

import os
import sys

import torch
from transformers import Olmo3Config, Olmo3ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
LAYERS = {"num_attention_heads": 2, "layer_types": ["sliding_attention", "full_attention"]}
SAVED = {"rope_type": "default", "rope_theta": 1000.0}
WORKAROUNDS = {"", "by-layer-type"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Olmo3Config(**SIZES, **LAYERS, rope_parameters=dict(SAVED))
    if workaround == "by-layer-type":
        for kind in set(config.layer_types) & set(config.rope_parameters):
            config.rope_parameters[kind] = dict(SAVED)
    model = Olmo3ForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 16), device=device)
    found = model(ids).logits.double()
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq"):
            steps = torch.arange(len(buffer), device=device) / len(buffer)
            buffer.copy_(SAVED["rope_theta"] ** -steps)
    exact = model(ids).logits.double()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.05, "the config's rotary parameters are not used"


if __name__ == "__main__":
    main(*sys.argv[1:])
