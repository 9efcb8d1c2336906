# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on the mask embedder of Mask2Former does nothing until it is merged"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["mask2former"]
# same-code = ["maskformer"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers", "not-trained"]
#
# [tool.repromatrix.workarounds]
# list-again = "After get_peft_model, set block.layers = list(block.children()) in each block."
#
# [tool.repromatrix.snippets]
# list-again = '''
# for block in model.modules():
#     if type(block).__name__ == "Mask2FormerPredictionBlock":
#         block.layers = list(block.children())'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "the merged adapter computes something else"
# where = "mask2former_lora_mask_embedder:main"
# ///
"""A LoRA adapter must compute the same before and after it is merged.

`Mask2FormerPredictionBlock` registers its layers by number and calls them from a plain list beside
that. peft replaces the registered layer; the list goes on with the old one. The adapter has no
effect and no gradient, without a warning, and a merge changes the weight that the list shares.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import Mask2FormerConfig, Mask2FormerModel, SwinConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
STAGES = {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1], "window_size": 2}
SWIN = {"image_size": 64, "out_features": ["stage1", "stage2", "stage3", "stage4"]}
SIZES = {"hidden_dim": 32, "feature_size": 32, "mask_feature_size": 32, "dim_feedforward": 32}
LAYERS = {"encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2, "num_queries": 4}
WORKAROUNDS = {"", "list-again"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Mask2FormerConfig(
        backbone_config=SwinConfig(**STAGES, **SWIN), **SIZES, **LAYERS, encoder_feedforward_dim=32
    )
    model = Mask2FormerModel(config).to(device, dtype)
    lora = LoraConfig(r=4, target_modules=r".*mask_embedder\.\d\.0", init_lora_weights=False)
    model = get_peft_model(model, lora).eval()
    if workaround == "list-again":
        for block in model.modules():
            if type(block).__name__ == "Mask2FormerPredictionBlock":
                block.layers = list(block.children())
    pixels = torch.randn(1, 3, 64, 64, device=device, dtype=dtype)
    with torch.no_grad():
        before = model(pixel_values=pixels).masks_queries_logits[-1].float()
        after = model.merge_and_unload()(pixel_values=pixels).masks_queries_logits[-1].float()
    measured["output_relative_error"] = ((after - before).norm() / after.norm()).item()
    assert measured["output_relative_error"] < 0.1, "the merged adapter computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
