# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2.5-VL forgets time where two frames are less than a second apart"
# reports = ["https://github.com/EvolvingLMMs-Lab/lmms-eval/issues/1393"]
# area = "rotary-embedding"
# models = ["qwen2.5-vl"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# whole-seconds = """
# Multiply second_per_grid_ts until it is whole, and divide vision_config.tokens_per_second by as \
# much."""
#
# [tool.repromatrix.snippets]
# whole-seconds = '''
# inputs["second_per_grid_ts"] = seconds * factor
# vision["tokens_per_second"] = vision["tokens_per_second"] // factor  # vision_config'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.52.1,<5.18.0"]
# raises = "AssertionError"
# match = "frames half a second apart are 0 positions apart"
# where = "qwen2_5_vl_fractional_interval:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/48669"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.3,<5.6"]
# workarounds = ["whole-seconds"]
# raises = "AssertionError"
# match = "frames half a second apart are 0 positions apart"
# where = "qwen2_5_vl_fractional_interval:main"
# note = "There all frames of a video stand at one moment (#45381)."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/EvolvingLMMs-Lab/lmms-eval/issues/1393"
# says = "Less than a second between two frames is truncated to 0."
# when = ["transformers>=5.6,<5.18"]
# outcome = "fails"
# ///
"""Frames half a second apart must stand at positions of their own.

`get_rope_index` of 4.52.1 to 5.17 makes a whole number of `second_per_grid_ts` before it multiplies
it by `tokens_per_second`: with more than two frames a second, two to a grid, every frame stands at
the same moment. Since 5.18 (#48669) the product is rounded.
"""

import inspect
import os
import sys

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 99}
LAYERS |= {"initializer_range": 0.3}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
VIDEOS = {"image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92}
VISION = {"depth": 1, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2}
VISION |= {"patch_size": 2, "intermediate_size": 32}
WORKAROUNDS = {"", "whole-seconds"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    factor = 2 if workaround == "whole-seconds" else 1
    text = {**LAYERS, **HEADS, "rope_scaling": ROPE}
    vision = {**VISION, "tokens_per_second": 4 // factor}
    config = Qwen2_5_VLConfig(vision_config=vision, **text, **VIDEOS)
    model = Qwen2_5_VLForConditionalGeneration(config).to(device, dtype).eval()
    ids = torch.tensor([[5, 92, *[91] * 8, 93, 8]], device=device)
    inputs = {"input_ids": ids, "video_grid_thw": torch.tensor([[2, 4, 4]], device=device)}
    inputs["pixel_values_videos"] = torch.randn(32, 24, device=device, dtype=dtype)
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        inputs["mm_token_type_ids"] = (ids == 91).int() * 2
    inputs["second_per_grid_ts"] = torch.tensor([0.5 * factor], device=device)
    seen: list[torch.Tensor] = []
    rotary = [one for key, one in model.named_modules() if key.endswith("model.rotary_emb")]
    rotary[0].register_forward_pre_hook(
        lambda _, args, kwargs: seen.append([*args, *kwargs.values()][1]), with_kwargs=True
    )
    with torch.no_grad():
        found = model(**inputs).logits.float()
        positions = seen[0].clone()
        positions[0, 0, 6:10] = positions[0, 0, 2] + 2
        model.model.rope_deltas = model.rope_deltas = None
        right = model(**inputs, position_ids=positions).logits.float()
    measured["logits_relative_error"] = float((found - right).norm() / right.norm())
    apart = int(seen[0][0, 0, 6] - seen[0][0, 0, 2])
    assert apart == 2, f"frames half a second apart are {apart} positions apart"


if __name__ == "__main__":
    main(*sys.argv[1:])
