# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "DETR sine position embeddings lose precision in bf16 and fp16 since 5.1"
# reports = []
# found-by = "measurement"
# area = "vision-tower"
# models = ["detr"]
# trigger = ["load", "cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32, give fp32 pixels and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(pixels.to(torch.float32))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.1"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "position embeddings are less exact than one rounding allows"
# where = "detr_sine_positions_half:main"
# ///
"""The sine position embeddings of a 16-bit DETR must equal those of fp32, rounded once.

Until 5.0 rows and columns were counted, and sines and cosines taken, in fp32. Since the refactored
DETR of 5.1 (transformers#41549) every step runs in the dtype of the pixels, and the error is about
ten times that of one rounding (the case allows three). `output_relative_error` compares the output
with that of the same 16-bit model given the exact table; weights are random, and wider than by
default, where attention between so few features is flat. What it costs in detections is not shown,
and nobody has reported it.
"""

import os
import sys
from contextlib import nullcontext

import torch
from torch import Tensor
from transformers import DetrConfig, DetrModel, ResNetConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "autocast"}
STAGES = {"embedding_size": 8, "hidden_sizes": [8], "depths": [1], "layer_type": "basic"}
BACKBONE = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "init_std": 0.3}
measured: dict[str, float] = {}


def run(model: DetrModel, pixels: Tensor, table: Tensor | None = None) -> list[Tensor]:
    seen: list[Tensor] = []
    (sines,) = (m for m in model.modules() if type(m).__name__ == "DetrSinePositionEmbedding")
    hook = sines.register_forward_hook(lambda *call: seen.append(call[-1]) or table)
    seen.append(model(pixels).last_hidden_state.float())
    hook.remove()
    return seen


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    resnet = ResNetConfig(**STAGES, out_features=["stage1"])
    model = DetrModel(DetrConfig(backbone_config=resnet, **BACKBONE, **LAYERS)).eval().to(device)
    pixels = torch.randn(1, 3, 96, 128, device=device)
    exact, _ = run(model, pixels)
    model.to(torch.float32 if autocast else dtype)
    pixels = pixels.to(model.dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        found, states = run(model, pixels)
        _, wanted = run(model, pixels, exact.to(found.dtype))
    measured["output_relative_error"] = ((states - wanted).norm() / wanted.norm()).item()
    rounding = (exact.to(dtype) - exact).abs().max().clamp(min=1e-7)
    measured["roundings"] = ((found.float() - exact).abs().max() / rounding).item()
    assert measured["roundings"] < 3, "position embeddings are less exact than one rounding allows"


if __name__ == "__main__":
    main(*sys.argv[1:])
