# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Mask2Former's input projections are not saved, loaded or cast: they lie in a plain list"
# reports = []
# found-by = "sweep"
# area = "vision-tower"
# models = ["mask2former"]
# trigger = ["load", "cast", "save"]
# symptom = ["wrong-numbers", "error"]
#
# [tool.repromatrix.workarounds]
# module-list = "Make an nn.ModuleList of the list before anything else is done with the model."
#
# [tool.repromatrix.snippets]
# module-list = '''
# projections = list(module.input_projections)
# del module.input_projections
# module.input_projections = torch.nn.ModuleList(projections)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<5.21.0"]
# precisions = ["fp32"]
# raises = "AssertionError"
# match = "the loaded module gives other outputs"
# where = "mask2former_input_projections:main"
#
# [[tool.repromatrix.fails]]
# title = "Mask2Former's input projections are not saved, loaded or cast: they lie in a plain list"
# when = ["transformers>=4.49.0,<5.21.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Input type (c10::BFloat16) and bias type (float) should be the same",
#     "Input type (c10::Half) and bias type (float) should be the same",
# ]
# where = "transformers.models.mask2former.modeling_mask2former:Mask2FormerTransformerModule.forward"
# ///
"""Mask2Former with input projections must compute the same once it is saved and loaded.

Until 5.20 Mask2FormerTransformerModule kept them in a plain list, so that they are no parameters:
a checkpoint lacks them, a loaded model has new ones, and a cast leaves them in fp32, where the
first projection raises. There are projections with enforce_input_projection=True, or where
hidden_dim is not feature_size; released checkpoints have none. Since 5.21 the list is a ModuleList.
"""

import os
import sys

import torch
from transformers import Mask2FormerConfig, SwinConfig
from transformers.models.mask2former.modeling_mask2former import Mask2FormerTransformerModule

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_dim": 16, "mask_feature_size": 16, "feature_size": 16, "dim_feedforward": 32}
LAYERS = {"num_attention_heads": 2, "decoder_layers": 3, "encoder_layers": 1, "num_queries": 4}
WORKAROUNDS = {"", "module-list"}
measured: dict[str, float] = {}


def build(config: Mask2FormerConfig, workaround: str) -> torch.nn.Module:
    module = Mask2FormerTransformerModule(in_features=16, config=config).eval()
    if workaround == "module-list":
        projections = list(module.input_projections)
        del module.input_projections
        module.input_projections = torch.nn.ModuleList(projections)
    return module


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Mask2FormerConfig(
        backbone_config=SwinConfig(), **SIZES, **LAYERS, enforce_input_projection=True
    )
    features = [torch.randn(1, 16, side, side, device=device, dtype=dtype) for side in (2, 4, 8)]
    mask_features = torch.randn(1, 16, 16, 16, device=device, dtype=dtype)
    saved, loaded = (build(config, workaround).to(device, dtype) for _ in range(2))
    loaded.load_state_dict(saved.state_dict())
    wanted, found = (
        module(features, mask_features).last_hidden_state.double() for module in (saved, loaded)
    )
    measured["output_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["output_relative_error"] < 0.02, "the loaded module gives other outputs"


if __name__ == "__main__":
    main(*sys.argv[1:])
