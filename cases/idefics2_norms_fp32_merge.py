# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Idefics2 in 16 bit with norms in fp32: Index put requires matching dtypes"
# reports = [
#     "https://github.com/huggingface/transformers/issues/38963",
#     "https://github.com/hiyouga/LlamaFactory/issues/3807",
# ]
# area = "multimodal-merge"
# models = ["idefics2"]
# trigger = ["cast", "autocast", "forward"]
# symptom = ["error"]
# simulates = "A loop casts the norms to fp32, as tools do that prepare a quantised model."
#
# [tool.repromatrix.workarounds]
# no-upcast = { says = "Leave the norms in 16 bit.", skips = true }
# fp32-weights = "Keep all weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# no-upcast = "model.to(dtype)  # norms included"
# fp32-weights = "model.to(torch.float32)  # and run it under torch.autocast"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<4.54.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Index put requires the source and destination dtypes match, got BFloat16 for the destination and Float for the source.",
#     "Index put requires the source and destination dtypes match, got Half for the destination and Float for the source.",
# ]
# where = "transformers.models.idefics2.modeling_idefics2:Idefics2Model.inputs_merger"
# fixed-by = "https://github.com/huggingface/transformers/pull/38467"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/38963"
# says = "Fine-tuning Idefics2 in fp16 fails: destination Half, source Float."
# when = ["transformers<4.54"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""Idefics2 must run under autocast with 16-bit weights whose norms were cast to fp32.

Loops that prepare a quantised model for training cast the norms so. The last norm of the perceiver then returns
fp32, which was put among token embeddings in 16 bit. Here nothing is quantised; the norms are cast
by hand.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Idefics2Config, Idefics2ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
VISION = {**LAYERS, "num_hidden_layers": 1, "image_size": 28, "patch_size": 14}
QUERIES = {"hidden_size": 32, "resampler_n_latents": 4, "resampler_depth": 1}
PERCEIVER = {**QUERIES, "resampler_n_heads": 2, "resampler_head_dim": 16, "num_key_value_heads": 2}
TEXT = {**LAYERS, "model_type": "mistral", "num_hidden_layers": 1, "num_key_value_heads": 2}
IMAGE_TOKEN = 98
WORKAROUNDS = {"", "no-upcast", "fp32-weights"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Idefics2Config(
        vision_config=VISION,
        perceiver_config=PERCEIVER,
        text_config={**TEXT, "vocab_size": 99},
        image_token_id=IMAGE_TOKEN,
    )
    model = Idefics2ForConditionalGeneration(config).to(device)
    model.to(torch.float32 if workaround == "fp32-weights" else dtype)
    for name, part in model.named_modules():
        if "norm" in name and workaround != "no-upcast":
            part.float()
    ids = torch.tensor([[IMAGE_TOKEN] * 4 + [5, 6, 7]], device=device)
    pixels = torch.randn(1, 1, 3, 28, 28, device=device)
    with torch.autocast(device, dtype) if dtype != torch.float32 else nullcontext():
        logits = model(input_ids=ids, pixel_values=pixels).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
