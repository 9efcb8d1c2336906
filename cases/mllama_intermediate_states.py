# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Llama 3.2 Vision reads its image features one layer too late"
# reports = ["https://github.com/huggingface/transformers/pull/40083"]
# found-by = "sweep"
# area = "vision-tower"
# models = ["mllama"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# one-less = "Subtract 1 from each of vision_model.intermediate_layers_indices after loading."
#
# [tool.repromatrix.snippets]
# one-less = '''
# indices = [index - 1 for index in config.intermediate_layers_indices]
# model.vision_model.intermediate_layers_indices = indices'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56"]
# workarounds = [""]
# raises = "AssertionError"
# match = "the states before layers [1, 2] were asked for, those before [2, 3] came"
# where = "mllama_intermediate_states:main"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.55,<4.56"]
# workarounds = ["", "one-less"]
# raises = "AssertionError"
# match = "the states before layers [1, 2] were asked for, those before [3, 3] came"
# where = "mllama_intermediate_states:main"
# note = "The last state stands in the place of every other."
#
# [[tool.repromatrix.fails]]
# when = ["transformers<4.55"]
# workarounds = ["one-less"]
# raises = "AssertionError"
# match = "the states before layers [1, 2] were asked for, those before [0, 1] came"
# where = "mllama_intermediate_states:main"
# note = "Releases that take the right states must not be corrected."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/40083"
# says = "Collecting the states after each layer, as 4.56 does, fixes the regression of 4.55."
# when = ["transformers>=4.56"]
# outcome = "passes"
# ///
"""The vision tower of Llama 3.2 must return the states before the layers that its config names.

The checkpoints were trained with the states that enter layers 3, 7, 15, 23 and 30, as the model's
first implementation and transformers up to 4.54 collected them. 4.55 (#39643) put the last state
in their place; since 4.56 (#40083) those that leave these layers are taken. Outputs stay plausible.
"""

import os
import sys

import torch
from transformers.models.mllama.configuration_mllama import MllamaVisionConfig
from transformers.models.mllama.modeling_mllama import MllamaVisionModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "attention_heads": 2, "image_size": 28}
LAYERS = {"num_hidden_layers": 3, "num_global_layers": 1, "vision_output_dim": 48}
LAYERS |= {"initializer_range": 0.2}
WORKAROUNDS = {"", "one-less"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    asked = [1, 2]
    config = MllamaVisionConfig(**SIZES, **LAYERS, intermediate_layers_indices=asked)
    model = MllamaVisionModel(config).to(device, dtype).eval()
    if workaround == "one-less":
        model.intermediate_layers_indices = [index - 1 for index in asked]
    states: list[torch.Tensor] = []
    for norm in (*(one.input_layernorm for one in model.transformer.layers), model.layernorm_post):
        norm.register_forward_pre_hook(lambda _, args: states.append(args[0]))
    pixels = torch.randn(1, 1, 4, 3, 28, 28, device=device, dtype=dtype)
    ones = torch.ones(1, 1, 4, dtype=torch.long, device=device)
    with torch.no_grad():
        features = model(pixels, ones[..., 0], ones).last_hidden_state[0, 0]
    found = features[..., 16:].unflatten(-1, (16, len(asked))).unbind(-1)
    known = [one.reshape(4, -1, 16)[:, : features.shape[1]] for one in states]
    came = [next((at for at, one in enumerate(known) if torch.equal(one, it)), -1) for it in found]
    got, right = torch.stack(found).float(), torch.stack([known[at] for at in asked]).float()
    measured["output_relative_error"] = float((got - right).norm() / right.norm())
    say = f"the states before layers {asked} were asked for, those before {came} came"
    assert came == asked, say


if __name__ == "__main__":
    main(*sys.argv[1:])
