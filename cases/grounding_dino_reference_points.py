# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49,!=5.4.0"]
#
# [tool.repromatrix]
# title = "Grounding DINO cannot run in fp16 or bf16: reference points are made in fp32"
# reports = [
#     "https://github.com/huggingface/transformers/issues/32672",
#     "https://github.com/huggingface/transformers/pull/48438",
# ]
# area = "vision-tower"
# models = ["grounding-dino"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model.eval()(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<5.17.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected scalar type BFloat16 but found Float",
#     "expected scalar type Half but found Float",
# ]
# where = [
#     "transformers.models.grounding_dino.modeling_grounding_dino:MultiScaleDeformableAttention.forward",
#     "transformers.models.grounding_dino.modeling_grounding_dino:multi_scale_deformable_attention",
# ]
# fixed-by = "https://github.com/huggingface/transformers/pull/48438"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/32672"
# says = "The model cannot be used in fp16."
# when = ["transformers>=4.49,<5.17"]
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/48438"
# says = "With every coordinate made in the model's dtype it runs in fp16 and bf16."
# when = ["transformers>=5.17"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""Grounding DINO must run its deformable attention in bf16 and fp16.

Until 5.16 the reference points and the valid ratios of the feature maps are made in fp32, so the
sampling locations are in fp32 too, and grid_sample refuses them beside 16-bit values. 5.17 makes
them in the model's dtype. The text position embeddings, which up to 5.8 fail before, are cast by
hand: they are the subject of grounding_dino_text_positions. 5.4.0 is left out: its config
validation refuses this config.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import BertConfig, GroundingDinoConfig, GroundingDinoModel, SwinConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "autocast"}
HEADS = {"num_attention_heads": 2, "num_hidden_layers": 1}
TEXT = BertConfig(**HEADS, vocab_size=1100, hidden_size=16, intermediate_size=16)
STAGES = {"depths": [1, 1], "num_heads": [1, 1], "out_features": ["stage1", "stage2"]}
VISION = SwinConfig(**STAGES, image_size=32, patch_size=4, embed_dim=8, window_size=4)
SIZES = {"d_model": 32, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "num_queries": 4}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "num_feature_levels": 2}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    model = GroundingDinoModel(
        GroundingDinoConfig(backbone_config=VISION, text_config=TEXT, **SIZES, **LAYERS)
    ).to(device, torch.float32 if autocast else dtype)
    layer = model.encoder.layers[0]
    embed = layer.get_text_position_embeddings
    layer.get_text_position_embeddings = lambda *args: embed(*args).to(model.dtype)
    ids = torch.tensor([[101, 5, 1012, 7, 102]], device=device)  # [CLS] a . cat [SEP]
    pixels = torch.randn(1, 3, 32, 32, device=device, dtype=model.dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        hidden = model.eval()(pixel_values=pixels, input_ids=ids).last_hidden_state
    assert hidden.isfinite().all(), "non-finite hidden states"


if __name__ == "__main__":
    main(*sys.argv[1:])
