# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "from_config(dtype=...) leaves the parts of a composite model in the dtype of their configs"
# reports = ["https://github.com/huggingface/transformers/pull/44629"]
# area = "loading"
# models = "any"
# shown-with = ["llava"]
# concerns = """
# Every composite model that is built from a config whose parts name a dtype, as those of a
# checkpoint do; models with a single config cannot meet it."""
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# set-parts = "Set the dtype of each sub-config before building the model."
# cast-after = "Call .to(dtype) on the model that was built."
#
# [tool.repromatrix.snippets]
# set-parts = '''
# for part in (config.text_config, config.vision_config):
#     part.torch_dtype = dtype'''
# cast-after = "model.to(dtype)  # after from_config"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.4"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.llava.modeling_llava:LlavaMultiModalProjector.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/44629"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/44629"
# says = "The sub-configs keep their own dtype; the change sets it on all of them."
# when = ["transformers<5.4"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""LLaVA built with `from_config(dtype=...)` must compute in that dtype in all of its parts.

Each part is built from its own sub-config, and takes the dtype that this names. Configs of
checkpoints name one; here it is another than the one that is asked for.
"""

import os
import sys

import torch
from transformers import AutoModelForImageTextToText, LlavaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
OTHER = {"fp32": torch.float16, "bf16": torch.float32, "fp16": torch.bfloat16}
IMAGE_TOKEN, PATCHES = 98, 4
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**LAYERS, "model_type": "llama", "intermediate_size": 32, "vocab_size": 99}
CLIP = {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14}
VISION = {**LAYERS, **CLIP, "intermediate_size": 32}
WORKAROUNDS = {"", "set-parts", "cast-after"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlavaConfig(
        text_config=TEXT,
        vision_config=VISION,
        image_token_index=IMAGE_TOKEN,
        vision_feature_layer=-1,
    )
    for part in (config.text_config, config.vision_config):
        part.torch_dtype = dtype if workaround == "set-parts" else OTHER[precision]
    ids = torch.tensor([[IMAGE_TOKEN] * PATCHES + [5, 6, 7]], device=device)
    pixels = torch.randn(1, 3, 28, 28, device=device, dtype=dtype)
    for way in ("cast-after", workaround):
        model = AutoModelForImageTextToText.from_config(config, torch_dtype=dtype).to(device)
        if way == "cast-after":
            model.to(dtype)
        logits = model(pixel_values=pixels, input_ids=ids).logits
        assert logits.dtype == dtype, "the model does not compute in the dtype that was asked for"


if __name__ == "__main__":
    main(*sys.argv[1:])
