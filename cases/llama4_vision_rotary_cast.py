# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.52"]
#
# [tool.repromatrix]
# title = "Casting Llama 4 with .to(dtype) takes the imaginary part of its vision rotary embedding"
# reports = []
# found-by = "sweep"
# area = "positions"
# models = ["llama4"]
# trigger = ["cast"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# method = "Cast with .half(), .bfloat16() or .float(), which leave complex tensors alone."
# load = "Load the model in the dtype in place of casting it."
#
# [tool.repromatrix.snippets]
# method = "model = model.half()  # or .bfloat16() or .float()"
# load = "model = Llama4VisionModel.from_pretrained(name, torch_dtype=dtype)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.4"]
# raises = "AssertionError"
# match = "a cast changes the outputs of the vision model"
# where = "llama4_vision_rotary_cast:main"
#
# [[tool.repromatrix.fails]]
# title = "Llama 4's vision model in 5.0 to 5.3 cannot run once loaded: Cannot copy out of meta tensor"
# when = ["transformers>=5.0,<5.4"]
# workarounds = ["load"]
# raises = "NotImplementedError"
# match = "Cannot copy out of meta tensor"
# where = "transformers.models.llama4.modeling_llama4:Llama4VisionRotaryEmbedding.forward"
# symptom = ["error"]
# note = "Loading leaves the frequencies, then a plain attribute, without data."
# ///
"""A vision model of Llama 4 that is cast gives what it gave before, but for rounding.

Its rotary frequencies are complex numbers. Since they are a buffer, `Module.to` casts them with
everything else, and torch drops the imaginary part of a complex number that becomes a real one:
positions are no longer rotated. `.to(torch.float32)`, which should do nothing, does it as well.
"""

import os
import sys
import tempfile

import torch
from transformers import Llama4VisionConfig, Llama4VisionModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
METHODS = {"fp32": "float", "bf16": "bfloat16", "fp16": "half"}
SIZES = {"hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 1, "image_size": 32}
SIZES |= {"vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32}
WORKAROUNDS = {"", "method", "load"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Llama4VisionConfig(**SIZES, num_attention_heads=2, patch_size=8)
    model = Llama4VisionModel(config).eval()
    for name, parameter in model.named_parameters():
        if "self_attn" in name and name.endswith("weight"):
            torch.nn.init.normal_(parameter, std=0.6)
    pixels = torch.randn(1, 3, 32, 32)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        wanted = model(pixel_values=pixels).last_hidden_state
        if workaround == "load":
            model.save_pretrained(folder)
            model = Llama4VisionModel.from_pretrained(folder, torch_dtype=dtype).eval()
        elif workaround == "method":
            model = getattr(model, METHODS[precision])()
        else:
            model = model.to(dtype)
        model = model.to(device)
        found = model(pixel_values=pixels.to(device, dtype)).last_hidden_state.float().cpu()
    measured["output_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["output_relative_error"] < 0.2, "a cast changes the outputs of the vision model"


if __name__ == "__main__":
    main(*sys.argv[1:])
