# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Pixtral in 16 bit fails on fp32 pixel_values: 'Input type (torch.FloatTensor)'"
# reports = [
#     "https://github.com/huggingface/transformers/issues/43716",
#     "https://github.com/huggingface/transformers/pull/43731",
#     "https://github.com/hiyouga/LlamaFactory/issues/8647",
# ]
# area = "vision-tower"
# models = ["pixtral"]
# same-code = ["mistral3", "llava"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-pixels = "Cast pixel_values to model.dtype before the call."
# autocast = "Keep the model in 16 bit and call it under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-pixels = "pixels = pixels.to(model.dtype)"
# autocast = '''
# with torch.autocast(device, dtype):
#     outputs = model(pixels)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.1"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = ["Input type (torch.FloatTensor) and", "Input type (torch.cuda.FloatTensor) and"]
# where = "transformers.models.pixtral.modeling_pixtral:PixtralVisionModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/43731"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/43731"
# says = "With the cast that the other towers have, fp32 pixels are accepted."
# when = ["transformers>=5.1"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""Pixtral in bf16 or fp16 must accept fp32 pixel_values, which is what its image processor returns.

Until 5.0 pixel_values were not cast before the first convolution, as SigLIP, CLIP and ViT cast them
to the dtype of its weights.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import PixtralVisionConfig, PixtralVisionModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-pixels", "autocast"}
measured: dict[str, float] = {}


def features(model: PixtralVisionModel, pixels: torch.Tensor) -> torch.Tensor:
    return model(pixels, image_sizes=[(28, 28)]).last_hidden_state.float()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = PixtralVisionConfig(**LAYERS, num_attention_heads=2, image_size=28, patch_size=14)
    model = PixtralVisionModel(config).to(device, dtype).eval()
    pixels = torch.randn(1, 3, 28, 28, device=device)
    wanted = features(model, pixels.to(dtype))
    if workaround == "cast-pixels":
        pixels = pixels.to(model.dtype)
    autocast = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if autocast else nullcontext():
        found = features(model, pixels)
    measured["relative_difference"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["relative_difference"] < 0.1, "fp32 pixels give other features"


if __name__ == "__main__":
    main(*sys.argv[1:])
