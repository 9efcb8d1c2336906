# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LayoutLMv3 ignores LoRA on its relative position biases until it is merged"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["layoutlmv3"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers", "not-trained"]
#
# [tool.repromatrix.workarounds]
# leave-out = "List target_modules without rel_pos_bias, rel_pos_x_bias and rel_pos_y_bias."
#
# [tool.repromatrix.snippets]
# leave-out = 'config = LoraConfig(target_modules=["value"])  # without the biases'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "merging the adapter changes the output"
# where = "layoutlmv3_lora_position_bias:main"
# ///
"""LayoutLMv3 must compute the same before and after an adapter is merged into it.

`LayoutLMv3Encoder._cal_1d_pos_emb` and `_cal_2d_pos_emb` index `rel_pos_bias.weight` themselves
and never call the layer. LoRA on all linear layers gives it an adapter, which has neither an effect
nor a gradient; merging, which changes the weight, brings it into the output.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LayoutLMv3Config, LayoutLMv3Model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1}
PLACES = {"coordinate_size": 4, "shape_size": 4, "max_2d_position_embeddings": 64}
HEADS = {"num_attention_heads": 2, "visual_embed": False, "initializer_range": 0.3}
BIASES = ["rel_pos_bias", "rel_pos_x_bias", "rel_pos_y_bias"]
WORKAROUNDS = {"", "leave-out"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LayoutLMv3Model(LayoutLMv3Config(**SIZES, **PLACES, **HEADS)).to(device, dtype)
    targets = ["value"] if workaround == "leave-out" else ["value", *BIASES]
    config = LoraConfig(r=4, lora_alpha=256, target_modules=targets, init_lora_weights=False)
    adapted = get_peft_model(model, config).eval()
    corners = torch.randint(0, 30, (1, 16, 2), device=device)
    boxes = torch.cat([corners, corners + torch.randint(1, 30, (1, 16, 2), device=device)], dim=-1)
    inputs = {"input_ids": torch.randint(5, 90, (1, 16), device=device), "bbox": boxes}
    with torch.no_grad():
        wanted = adapted(**inputs).last_hidden_state.float()
        found = adapted.merge_and_unload()(**inputs).last_hidden_state.float()
    measured["output_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["output_relative_error"] < 0.05, "merging the adapter changes the output"


if __name__ == "__main__":
    main(*sys.argv[1:])
