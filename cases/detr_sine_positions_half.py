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
ten times that of one rounding (the case allows two). Weights and pixels are random, so this
measures the embeddings alone: what it costs in detections is not shown, and nobody has reported it.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import DetrConfig, DetrModel, ResNetConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "autocast"}
STAGES = {"embedding_size": 8, "hidden_sizes": [8], "depths": [1], "layer_type": "basic"}
BACKBONE = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "num_queries": 4, "d_model": 32}
measured: dict[str, float] = {}


def tiny_detr() -> DetrModel:
    resnet = ResNetConfig(**STAGES, out_features=["stage1"])
    return DetrModel(DetrConfig(backbone_config=resnet, **BACKBONE, **LAYERS)).eval()


def positions(model: DetrModel, pixels: torch.Tensor) -> torch.Tensor:
    seen: list[torch.Tensor] = []
    (sines,) = (m for m in model.modules() if type(m).__name__ == "DetrSinePositionEmbedding")
    hook = sines.register_forward_hook(lambda *call: seen.append(call[-1]))
    model(pixels)
    hook.remove()
    return seen[0].flatten()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    model = tiny_detr().to(device)
    pixels = torch.randn(1, 3, 96, 128, device=device)
    exact = positions(model, pixels)
    model.to(torch.float32 if autocast else dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        found = positions(model, pixels.to(model.dtype)).float()
    measured["largest_error"] = (found - exact).abs().max().item()
    measured["of_one_rounding"] = (exact.to(dtype) - exact).abs().max().item()
    near = measured["largest_error"] <= 2 * measured["of_one_rounding"]
    assert near, "position embeddings are less exact than one rounding allows"


if __name__ == "__main__":
    main(*sys.argv[1:])
