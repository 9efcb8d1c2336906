# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2-VL puts all frames of a video at one moment, and its rows in the wrong order"
# reports = ["https://github.com/huggingface/transformers/issues/45381"]
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
# when = ["transformers>=5.3,<5.6"]
# workarounds = [""]
# raises = "AssertionError"
# match = "the patches of two frames do not stand where they should"
# where = "qwen2_vl_video_positions:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45400"
#
# [[tool.repromatrix.fails]]
# title = "Qwen2-VL in 4.54: Video features and video tokens do not match"
# when = ["transformers>=4.54,<4.55"]
# variants = ["qwen2-vl"]
# workarounds = ["", "own-positions"]
# raises = "ValueError"
# match = "Video features and video tokens do not match: tokens: 0, features 8"
# where = "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/39777"
# note = "4.54 looks for the video where config.image_token_id stands: another fault."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/45381"
# says = "On 5.3.0 the positions of a video given to Qwen2.5-VL are wrong."
# when = ["transformers==5.3.0"]
# outcome = "fails"
# ///
"""The frames of a video follow one another in time, each with its rows and columns.

5.3.0 computed the positions anew: the temporal one was that of the beginning for every frame, and
rows were repeated as if all frames were one tall picture. 5.6 counts frames again (#45400).
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
    ids = torch.tensor([[5, 92, *[91] * 8, 93, 8]], device=device)
    inputs = {"input_ids": ids, "video_grid_thw": torch.tensor([[2, 4, 4]], device=device)}
    inputs["pixel_values_videos"] = torch.randn(32, 24, device=device, dtype=dtype)
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        inputs["mm_token_type_ids"] = (ids == 91).int() * 2
    time, row, column = [2] * 4 + [3] * 4, [2, 2, 3, 3] * 2, [2, 3, 2, 3] * 2
    wanted = torch.tensor([[[0, 1, *axis, 4, 5]] for axis in (time, row, column)], device=device)
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
    say = "the patches of two frames do not stand where they should"
    assert torch.equal(seen[0], wanted), say


if __name__ == "__main__":
    main(*sys.argv[1:])
