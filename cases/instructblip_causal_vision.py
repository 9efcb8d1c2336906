# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "InstructBLIP describes images badly unless it is loaded with eager attention"
# reports = ["https://github.com/huggingface/transformers/issues/40952"]
# found-by = "sweep"
# area = "vision-tower"
# models = ["instructblip", "blip-2"]
# variants = ["instructblip", "blip-2"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation=\"eager\"."
#
# [tool.repromatrix.snippets]
# eager = 'config = config_class(**options, attn_implementation="eager")'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.52,<4.53"]
# workarounds = [""]
# raises = "AssertionError"
# match = "the first patch does not see the last one"
# where = "instructblip_causal_vision:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38108"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/40952"
# says = "4.52.4 describes images noticeably worse without a word about attention."
# when = ["transformers==4.52.4"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/40952"
# says = "With eager attention the model seems to work correctly."
# when = ["transformers==4.52.4"]
# workaround = "eager"
# outcome = "passes"
# ///
"""Every patch of an image must see all others in the vision tower of BLIP-2 and InstructBLIP.

4.52 gave both towers SDPA through `sdpa_attention_forward`, which took any call without a mask for
causal, whatever the module's `is_causal` says; 4.53 asks it. A patch then sees only those before.
"""

import os
import sys
from importlib import import_module

import torch
from transformers import PreTrainedModel  # noqa: TC002 - at the top a runner imports it once

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {"instructblip": ("instructblip", "InstructBlip"), "blip-2": ("blip_2", "Blip2")}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
REST = {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
WORKAROUNDS = {"", "eager"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    module, name = NAMES[os.environ.get("REPRO_VARIANT", "instructblip")]
    found = import_module(f"transformers.models.{module}.modeling_{module}")
    model_class = getattr(found, f"{name}VisionModel")
    config_class = model_class.config_class
    eager = config_class(**SIZES, **REST, initializer_range=0.2, attn_implementation="eager")
    config = eager if workaround == "eager" else config_class(**SIZES, **REST)
    reference: PreTrainedModel = model_class(eager).to(device, dtype).eval()
    model: PreTrainedModel = model_class(config).to(device, dtype).eval()
    model.load_state_dict(reference.state_dict())
    pixels = torch.randn(1, 3, 28, 28, device=device, dtype=dtype)
    other = pixels.clone()
    other[..., 14:, 14:] += 3  # the last of the four patches
    with torch.no_grad():
        before, after = (model(pixel_values=one).last_hidden_state for one in (pixels, other))
        right = reference(pixel_values=pixels).last_hidden_state.float()
    measured["output_relative_error"] = float((before - right).norm() / right.norm())
    assert not torch.equal(before[:, 4], after[:, 4]), "the last patch does not see itself"
    assert not torch.equal(before[:, 1], after[:, 1]), "the first patch does not see the last one"


if __name__ == "__main__":
    main(*sys.argv[1:])
