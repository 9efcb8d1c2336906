# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2-VL lets the text after a long video begin before the video ends"
# reports = []
# found-by = "measurement"
# area = "rotary-embedding"
# models = ["qwen2-vl", "qwen2.5-vl"]
# variants = ["qwen2-vl", "qwen2.5-vl"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# own-positions = { says = "Compute the positions and pass them as position_ids.", skips = true }
#
# [tool.repromatrix.snippets]
# own-positions = 'inputs["position_ids"] = positions'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.3"]
# workarounds = [""]
# raises = "AssertionError"
# match = "the text after a video at positions 2 to 5 begins at 4"
# where = "qwen2_vl_text_after_video:main"
#
# [[tool.repromatrix.fails]]
# title = "Qwen2-VL in 4.54: Video features and video tokens do not match"
# when = ["transformers>=4.54,<4.55"]
# variants = ["qwen2-vl"]
# workarounds = ["", "own-positions"]
# raises = "ValueError"
# match = "Video features and video tokens do not match: tokens: 0, features 16"
# where = "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/39777"
# note = "4.54 looks for the video where config.image_token_id stands: another fault."
# ///
"""The text after a video must begin one position after the last of the video, in time or in space.

Since 5.3.0 `get_rope_index` goes on by the rows or columns of the video, whichever are more, and
forgets its frames: the text that follows a video of more frames than rows is placed among them.
Before, and in the first implementation, it went on after the largest position.
"""

import inspect
import os
import sys
from importlib import import_module

import torch
from transformers import PreTrainedModel  # noqa: TC002 - at the top a runner imports it once

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {"qwen2-vl": ("qwen2_vl", "Qwen2VL"), "qwen2.5-vl": ("qwen2_5_vl", "Qwen2_5_VL")}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 99}
LAYERS |= {"initializer_range": 0.3}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
VIDEOS = {"image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92}
VISION = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2}
VISION |= {"patch_size": 2, "intermediate_size": 32, "tokens_per_second": 1}
WORKAROUNDS = {"", "own-positions"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    module, name = NAMES[os.environ.get("REPRO_VARIANT", "qwen2-vl")]
    library = import_module(f"transformers.models.{module}.modeling_{module}")
    model_class = getattr(library, f"{name}ForConditionalGeneration")
    text = {**LAYERS, **HEADS, "rope_scaling": ROPE}
    config = model_class.config_class(vision_config=VISION, **text, **VIDEOS)
    model: PreTrainedModel = model_class(config).to(device, dtype).eval()
    ids = torch.tensor([[5, 92, *[91] * 16, 93, 8]], device=device)
    inputs = {"input_ids": ids, "video_grid_thw": torch.tensor([[4, 4, 4]], device=device)}
    inputs["pixel_values_videos"] = torch.randn(64, 24, device=device, dtype=dtype)
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        inputs["mm_token_type_ids"] = (ids == 91).int() * 2
    time = [2 + token // 4 for token in range(16)]
    row, column = [2, 2, 3, 3] * 4, [2, 3, 2, 3] * 4
    wanted = torch.tensor([[[0, 1, *axis, 6, 7]] for axis in (time, row, column)], device=device)
    if workaround == "own-positions":
        inputs["position_ids"] = wanted
    seen: list[torch.Tensor] = []
    rotary = [one for key, one in model.named_modules() if key.endswith("model.rotary_emb")]
    rotary[0].register_forward_pre_hook(
        lambda _, args, kwargs: seen.append([*args, *kwargs.values()][1]), with_kwargs=True
    )
    with torch.no_grad():
        found = model(**inputs).logits.float()
        model.model.rope_deltas = model.rope_deltas = None
        right = model(**{**inputs, "position_ids": wanted}).logits.float()
    measured["logits_relative_error"] = float((found - right).norm() / right.norm())
    begin = int(seen[0][:, 0, 18].max())
    assert begin == 6, f"the text after a video at positions 2 to 5 begins at {begin}"


if __name__ == "__main__":
    main(*sys.argv[1:])
