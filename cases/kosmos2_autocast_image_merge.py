# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Kosmos-2 with an image under autocast: Index put requires matching dtypes"
# reports = [
#     "https://github.com/huggingface/transformers/issues/47689",
#     "https://github.com/huggingface/transformers/pull/47691",
# ]
# area = "multimodal-merge"
# models = ["kosmos2"]
# trigger = ["autocast"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# weights-in-half = "Cast the model and the pixels to 16 bit and do not use autocast."
# cast-embeddings = "Cast the output of the token embedding in a forward hook."
#
# [tool.repromatrix.snippets]
# weights-in-half = '''
# model.to(dtype)  # and no torch.autocast
# pixels = pixels.to(dtype)'''
# cast-embeddings = '''
# table = model.get_input_embeddings()
# table.register_forward_hook(lambda *call: call[-1].to(dtype))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Index put requires the source and destination dtypes match, got Float for"
# where = "transformers.models.kosmos2.modeling_kosmos2:Kosmos2TextTransformer.forward_embedding"
# fixed-by = "https://github.com/huggingface/transformers/pull/47691"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47689"
# says = "The forward pass raises under bfloat16 autocast on the development version of 5.15.0."
# when = ["transformers>=5.14,<5.15"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47691"
# says = "Casting to the dtype of the text embeddings at the merge fixes it."
# when = ["transformers>=5.15"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""Kosmos-2 must run a forward pass on an image under autocast.

Until 5.14 it raised: under autocast the image projection returns 16 bit while the token embeddings
stay in fp32, and the index assignment that merges the two does not convert between dtypes.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Kosmos2Config, Kosmos2ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "weights-in-half", "cast-embeddings"}
QUERIES = 4
TEXT = {"vocab_size": 99, "embed_dim": 32, "layers": 1, "ffn_dim": 64, "attention_heads": 4}
LAYERS = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
VISION = {**LAYERS, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Kosmos2Config(text_config=TEXT, vision_config=VISION, latent_query_num=QUERIES)
    model = Kosmos2ForConditionalGeneration(config).to(device).eval()
    if workaround == "weights-in-half":
        model.to(dtype)
    if workaround == "cast-embeddings":
        model.get_input_embeddings().register_forward_hook(lambda *call: call[-1].to(dtype))
    ids = torch.arange(3, 11, device=device)[None]
    holds_image = torch.tensor([[0, *[1] * QUERIES, 0, 0, 0]], device=device)
    pixels = torch.randn(1, 3, 28, 28, device=device)
    if workaround == "weights-in-half":
        pixels = pixels.to(dtype)
    autocast = precision != "fp32" and workaround != "weights-in-half"
    with torch.no_grad(), torch.autocast(device, dtype) if autocast else nullcontext():
        output = model(pixel_values=pixels, input_ids=ids, image_embeds_position_mask=holds_image)
    assert output.logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
