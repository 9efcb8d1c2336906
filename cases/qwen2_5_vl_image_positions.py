# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2.5-VL moves an image in time: its temporal position is multiplied"
# reports = [
#     "https://github.com/huggingface/transformers/issues/45325",
#     "https://github.com/huggingface/lerobot/issues/3648",
# ]
# found-by = "sweep"
# area = "rotary-embedding"
# models = ["qwen2.5-vl"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# no-time = "Set vision_config.tokens_per_second to 1, where inputs hold no video."
#
# [tool.repromatrix.snippets]
# no-time = 'vision["tokens_per_second"] = 1  # vision_config, before the model is built'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.3,<5.5.4"]
# workarounds = [""]
# raises = "AssertionError"
# match = "the model places the image elsewhere"
# where = "qwen2_5_vl_image_positions:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45330"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/45325"
# says = "On 5.3.0 the temporal position of a still image is scaled by tokens_per_second."
# when = ["transformers==5.3.0"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/lerobot/issues/3648"
# says = "Positions are computed wrongly on 5.4.0."
# when = ["transformers==5.4.0"]
# outcome = "fails"
# ///
"""A still image stands at one moment: where the text before it ended.

From 5.3.0 to 5.5.3 `get_rope_index` multiplied the temporal position at which an image begins by
`tokens_per_second`, which is meant for the distance of two frames of a video.
"""

import inspect
import os
import sys

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 99}
LAYERS |= {"initializer_range": 0.3}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGES = {"image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92}
VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "out_hidden_size": 32}
VISION |= {"num_heads": 2, "patch_size": 2, "tokens_per_second": 4, "fullatt_block_indexes": [0]}
WORKAROUNDS = {"", "no-time"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    vision = {**VISION, "tokens_per_second": 1} if workaround == "no-time" else VISION
    text = {**LAYERS, **HEADS, **TOKENS, "rope_scaling": ROPE}
    config = Qwen2_5_VLConfig(vision_config=vision, **text, **IMAGES)
    model = Qwen2_5_VLForConditionalGeneration(config).to(device, dtype).eval()
    ids = torch.tensor([[5, 6, 7, 92, 90, 90, 90, 90, 93, 8]], device=device)
    inputs = {"input_ids": ids, "image_grid_thw": torch.tensor([[1, 4, 4]], device=device)}
    inputs["pixel_values"] = torch.randn(16, 24, device=device, dtype=dtype)
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        inputs["mm_token_type_ids"] = (ids == 90).int()
    time, row, column = [4, 4, 4, 4], [4, 4, 5, 5], [4, 5, 4, 5]  # of four merged patches
    places = [[[0, 1, 2, 3, *axis, 6, 7]] for axis in (time, row, column)]
    with torch.no_grad():
        found = model(**inputs).logits
        model.model.rope_deltas = model.rope_deltas = None
        wanted = model(**inputs, position_ids=torch.tensor(places, device=device)).logits
    error = float((found - wanted).float().norm() / wanted.float().norm())
    measured["logits_relative_error"] = error
    assert torch.equal(found, wanted), "the model places the image elsewhere"


if __name__ == "__main__":
    main(*sys.argv[1:])
