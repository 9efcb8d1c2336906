# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49,!=5.4.0"]
#
# [tool.repromatrix]
# title = "Grounding DINO casts its text position embeddings to int64 and loses them"
# reports = [
#     "https://github.com/huggingface/transformers/issues/47674",
#     "https://github.com/huggingface/transformers/pull/47675",
# ]
# area = "vision-tower"
# models = ["grounding-dino"]
# same-code = ["mm-grounding-dino"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# float-ids = "Cast the text position ids to the model's dtype before the encoder layer."
#
# [tool.repromatrix.snippets]
# float-ids = "ids = ids.to(dtype)  # the text_position_ids of each encoder layer"
#
# [[tool.repromatrix.fails]]
# title = "Grounding DINO in 16 bit, until 5.8: mat1 and mat2 must have the same dtype in text attention"
# when = ["transformers>=4.49,<5.9"]
# precisions = ["bf16", "fp16"]
# workarounds = ["*"]
# raises = "RuntimeError"
# match = "mat1 and mat2 must have the same dtype, but got Float and"
# where = "transformers.models.grounding_dino.modeling_grounding_dino:GroundingDinoMultiheadAttention.forward"
# note = "Until 5.8 they were fp32, which is right but does not fit 16-bit weights."
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.9,<5.23"]
# raises = "AssertionError"
# match = "text position embeddings are whole numbers"
# where = "grounding_dino_text_positions:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47674"
# says = "In a development version of 5.15.0 everything but -1, 0 and 1 is lost, in fp32 too."
# when = ["transformers==5.15.0"]
# precisions = ["fp32"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47675"
# says = "With ids in the dtype of the text features the values stay, in 16 bit as well."
# when = ["transformers>=5.23"]
# outcome = "passes"
# ///
"""The text position embeddings of Grounding DINO must be sines and cosines, not only -1, 0 and 1.

Since 5.9 the function that computes them returns the dtype of the position ids that it gets, and
these are int64: every value between -1 and 1 is truncated to 0, in fp32 as well. 5.23 passes the
ids in the dtype of the text features. Up to 5.8 the embeddings are in fp32, which is right, but
fails with 16-bit weights. 5.4.0 is left out: its config validation refuses this config.
"""

import os
import sys

import torch
from transformers import GroundingDinoConfig
from transformers.models.grounding_dino.modeling_grounding_dino import GroundingDinoEncoderLayer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "float-ids"}
SIZES = {"d_model": 32, "encoder_ffn_dim": 16, "encoder_attention_heads": 2}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    layer = GroundingDinoEncoderLayer(GroundingDinoConfig(**SIZES)).to(device, dtype).eval()
    text = torch.randn(1, 8, 32, device=device, dtype=dtype)
    ids = torch.arange(8, device=device)[None]
    if workaround == "float-ids":
        ids = ids.to(dtype)
    mask = torch.ones(1, 8, 8, device=device, dtype=torch.bool)
    positions = layer.get_text_position_embeddings(text, None, ids)
    sines = layer.get_text_position_embeddings(text, None, ids.float()).to(dtype)
    found, exact = (
        layer.text_enhancer_layer(text, attention_masks=mask, position_embeddings=table)[0]
        for table in (positions, sines)
    )
    error = (found - exact).float().norm() / exact.float().norm()
    measured["output_relative_error"] = error.item()
    whole = positions == positions.round()
    measured["share_of_whole_numbers"] = whole.float().mean().item()
    assert measured["share_of_whole_numbers"] != 1, "text position embeddings are whole numbers"


if __name__ == "__main__":
    main(*sys.argv[1:])
