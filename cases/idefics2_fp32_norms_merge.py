# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Idefics2 with norms raised to fp32 cannot merge its images into 16-bit text embeddings"
# reports = ["https://github.com/huggingface/transformers/issues/38963"]
# area = "multimodal-merge"
# models = ["idefics2"]
#
# [tool.repromatrix.workarounds]
# norms-in-half = "Leave the norms in the 16-bit type of the other weights."
# cast-connector = "Cast the output of the connector to the 16-bit type in a forward hook."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<4.54"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Index put requires the source and destination dtypes match, got Half for the",
#     "Index put requires the source and destination dtypes match, got BFloat16 for the",
# ]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/38963"
# says = "Fine-tuning a quantised fp16 model fails on the development version of 4.53.0."
# when = ["transformers>=4.52,<4.54"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""Idefics2 in 16 bit must be able to look at an image when its norms are raised to fp32.

It was not: that is how quantised models are prepared for training under autocast, and since the
connector ends with such a norm its features are fp32. They were assigned to the places of the
image tokens among 16-bit text embeddings without a cast.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Idefics2Config, Idefics2ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "norms-in-half", "cast-connector"}
IMAGE_TOKEN, LATENTS = 98, 2
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
VISION = {**SIZES, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
LATENT = {"resampler_n_latents": LATENTS, "resampler_depth": 1, "hidden_size": 16}
HEADS = {"resampler_n_heads": 2, "resampler_head_dim": 8, "num_key_value_heads": 1}
GROUPS = {"num_attention_heads": 2, "num_key_value_heads": 1}
TEXT = {**SIZES, **GROUPS, "model_type": "mistral", "vocab_size": 99, "pad_token_id": 0}


def raise_norms(model: torch.nn.Module) -> None:
    for module in model.modules():
        if "Norm" in type(module).__name__:
            module.float()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Idefics2Config(
        vision_config=VISION,
        perceiver_config={**LATENT, **HEADS},
        text_config=TEXT,
        image_token_id=IMAGE_TOKEN,
    )
    model = Idefics2ForConditionalGeneration(config).to(device, dtype).eval()
    if workaround != "norms-in-half":
        raise_norms(model)
    if workaround == "cast-connector":
        model.model.connector.register_forward_hook(lambda *call: call[-1].to(dtype))
    ids = torch.tensor([[1, *[IMAGE_TOKEN] * LATENTS, 5, 6]], device=device)
    pixels = torch.randn(1, 1, 3, 28, 28, device=device, dtype=dtype)
    autocast = precision != "fp32"
    with torch.no_grad(), torch.autocast(device, dtype) if autocast else nullcontext():
        logits = model(input_ids=ids, pixel_values=pixels).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
