# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.52"]
#
# [tool.repromatrix]
# title = "The mask decoder of SAM-HQ drops what its transformer makes of the image"
# reports = []
# found-by = "sweep"
# area = "segmentation"
# models = ["sam_hq"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# hand-over = "Give what the transformer returns to upscale_conv1 with two hooks."
#
# [tool.repromatrix.snippets]
# hand-over = '''
# decoder, kept = model.mask_decoder, []
# decoder.transformer.register_forward_hook(lambda _, __, found: kept.append(found[1]))
# decoder.upscale_conv1.register_forward_pre_hook(
#     lambda _, given: (kept.pop().transpose(2, 3).reshape(given[0].shape),)
# )'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54.0"]
# raises = "AssertionError"
# match = "the masks miss a part of the decoder"
# where = "sam_hq_image_part_dropped:main"
# ///
"""SAM-HQ must paint its masks on the image as the transformer of its mask decoder returns it.

That transformer returns the prompts and the image, each after attention to the other. Since
transformers#39120 `SamHQMaskDecoder.forward` calls the image `iou_token_out`, a name that it then
gives to something else, and scales up the image that entered, with height and width exchanged.
Nothing fails, and the masks have their shape. The weights are random: how much worse trained masks
are is not measured here.
"""

import os
import sys

import torch
from transformers import SamHQConfig, SamHQModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
VISION = {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "image_size": 64}
GLOBAL = {"output_channels": 16, "global_attn_indexes": [0, 1], "num_pos_feats": 8}
PROMPTS = {"hidden_size": 16, "image_size": 64, "mask_input_channels": 4}
DECODER = {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "vit_dim": 24}
WORKAROUNDS = {"", "hand-over"}
measured: dict[str, float] = {}


def hand_over(model: SamHQModel) -> None:
    """Let what is scaled up be the second output of the transformer, as up to 4.53."""
    decoder, kept = model.mask_decoder, []
    decoder.transformer.register_forward_hook(lambda _, __, found: kept.append(found[1]))
    decoder.upscale_conv1.register_forward_pre_hook(
        lambda _, given: (kept.pop().transpose(2, 3).reshape(given[0].shape),)
    )


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    parts = {"vision_config": {**VISION, **GLOBAL}, "prompt_encoder_config": PROMPTS}
    model = SamHQModel(SamHQConfig(**parts, mask_decoder_config=DECODER)).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    pixels = torch.randn(1, 3, 64, 64).to(device, dtype)
    model.to(device, dtype)
    if workaround == "hand-over":
        hand_over(model)
    found = model(pixel_values=pixels).pred_masks.double()
    if not workaround:
        hand_over(model)
    exact = model(pixel_values=pixels).pred_masks.double()
    measured["output_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["output_relative_error"] < 0.05, "the masks miss a part of the decoder"


if __name__ == "__main__":
    main(*sys.argv[1:])
