# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Conditional DETR and DAB-DETR in 16 bit: mat1 and mat2 must have the same dtype"
# reports = ["https://github.com/huggingface/transformers/pull/40300"]
# area = "positions"
# models = ["conditional_detr", "dab-detr"]
# variants = ["conditional-detr", "dab-detr"]
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
#     outputs = model(pixels)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<4.56.0"]
# precisions = ["bf16", "fp16"]
# variants = ["conditional-detr"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
#     "mat1 and mat2 must have the same dtype, but got Float and Half",
# ]
# where = "transformers.models.conditional_detr.modeling_conditional_detr:ConditionalDetrDecoderLayer.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/40300"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<5.4.0"]
# precisions = ["bf16", "fp16"]
# variants = ["dab-detr"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
#     "mat1 and mat2 must have the same dtype, but got Float and Half",
# ]
# where = "transformers.models.dab_detr.modeling_dab_detr:DabDetrMLP.forward"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5.0"]
# precisions = ["bf16", "fp16"]
# variants = ["dab-detr"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
#     "mat1 and mat2 must have the same dtype, but got Float and Half",
# ]
# where = "transformers.models.dab_detr.modeling_dab_detr:DabDetrMLP.forward"
#
# [[tool.repromatrix.fails]]
# title = "DAB-DETR in 5.4 cannot be built: Field 'is_encoder_decoder' expected int, got bool"
# at-fault = "transformers"
# when = ["transformers>=5.4.0,<5.5.0"]
# workarounds = ["*"]
# variants = ["dab-detr"]
# raises = "StrictDataclassFieldValidationError"
# match = "TypeError: Field 'is_encoder_decoder' expected int, got bool (value: True)"
# where = "huggingface_hub.dataclasses:strict.<locals>.wrap.<locals>.__strict_setattr__"
# note = "Another bug: 5.4 declares the field as an int."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/40300"
# says = "Both DETR models can run in other dtypes than fp32 from then on."
# when = ["transformers>=4.56"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""Conditional DETR and DAB-DETR in bf16 or fp16 must run on pixels of their own dtype.

The sines of the queries' reference points were left in fp32 and met 16-bit weights. Since 4.56 both
cast them. DAB-DETR fails still: the sines of the pixels, which its encoder adds first, stay in fp32.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import (
    ConditionalDetrConfig,
    ConditionalDetrForObjectDetection,
    DabDetrConfig,
    DabDetrForObjectDetection,
    ResNetConfig,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BACKBONE = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
LAYERS = {"encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 4}
MODELS = {
    "conditional-detr": (ConditionalDetrForObjectDetection, ConditionalDetrConfig, "d_model"),
    "dab-detr": (DabDetrForObjectDetection, DabDetrConfig, "hidden_size"),
}
WORKAROUNDS = {"", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    variant = os.environ.get("REPRO_VARIANT", "conditional-detr")
    model_class, config_class, width = MODELS[variant]
    backbone = {
        "backbone_config": ResNetConfig(**BACKBONE, out_features=["stage2"]),
        "use_timm_backbone": False,
        "use_pretrained_backbone": False,
        "backbone": None,
    }
    model = model_class(config_class(**LAYERS, **HEADS, **backbone, **{width: 32})).eval()
    model.to(device, torch.float32 if autocast else dtype)
    pixels = torch.randn(1, 3, 32, 32, device=device, dtype=model.dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        found = model(pixels)
    assert found.logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
