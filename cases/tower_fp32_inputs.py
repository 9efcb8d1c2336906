# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53"]
#
# [tool.repromatrix]
# title = "Gemma 3n audio, Florence-2 and DeepSeek-OCR-2 in 16 bit refuse what their processors return"
# reports = ["https://github.com/huggingface/transformers/pull/48632"]
# area = "vision-tower"
# models = ["gemma3n", "florence2", "deepseek_ocr2"]
# variants = ["gemma3n", "florence2", "deepseek-ocr2"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-inputs = "Cast pixel_values or input_features to the dtype of the model before the call."
# autocast = "Keep the model in 16 bit and call it under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-inputs = "features = tower(inputs.to(dtype))"
# autocast = '''
# with torch.autocast(device, dtype):
#     features = tower(inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56.0,<5.4.0"]
# precisions = ["bf16", "fp16"]
# variants = ["florence2"]
# raises = "RuntimeError"
# match = [
#     "Input type (float) and bias type (c10::BFloat16) should be the same",
#     "Input type (float) and bias type (c10::Half) should be the same",
# ]
# where = "transformers.models.florence2.modeling_florence2:Florence2VisionConvEmbed.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/44503"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.10.1"]
# precisions = ["bf16", "fp16"]
# variants = ["deepseek-ocr2"]
# raises = "RuntimeError"
# match = [
#     "Input type (float) and bias type (c10::BFloat16) should be the same",
#     "Input type (float) and bias type (c10::Half) should be the same",
# ]
# where = "transformers.models.deepseek_ocr2.modeling_deepseek_ocr2:DeepseekOcr2SamPatchEmbeddings.forward"
#
# [[tool.repromatrix.fails]]
# title = "Gemma 3n audio, Florence-2 and DeepSeek-OCR-2 in 16 bit refuse what their processors return"
# when = ["transformers>=4.53.0,<4.56.0"]
# precisions = ["bf16", "fp16"]
# variants = ["gemma3n"]
# raises = "RuntimeError"
# match = [
#     "expected scalar type Float but found BFloat16",
#     "expected scalar type Float but found Half",
# ]
# where = "transformers.models.gemma3n.modeling_gemma3n:Gemma3nAudioSSCPConvBlock.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/39743"
# ///
"""A tower in bf16 or fp16 must accept fp32 inputs, which is what processors return.

The first convolution refuses them. Florence-2 has cast them since 5.4 and Gemma 3n's audio since
4.56; DeepSeek-OCR-2 does not. A release without the model ends with 125.
"""

import os
import sys
from contextlib import nullcontext
from importlib import import_module, util

import torch
from transformers import PreTrainedModel  # noqa: TC002 - at the top a runner imports it once

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
AUDIO = {"hidden_size": 16, "conf_num_attention_heads": 2, "conf_num_hidden_layers": 1}
FEATURES = {"input_feat_size": 16, "sscp_conv_channel_size": (4, 4)}
STAGES = {"depths": (1,), "embed_dim": (8,), "num_heads": (1,), "num_groups": (1,)}
PATCHES = {"patch_size": (4,), "patch_stride": (4,), "patch_padding": (0,)}
SAM = {"hidden_size": 8, "output_channels": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
PIXELS = {"image_size": 64, "global_attn_indexes": (0,), "downsample_channels": [8, 8]}
PARTS = {
    "gemma3n": ("Gemma3nAudio", "Encoder", {**AUDIO, **FEATURES}, (1, 48, 16)),
    "florence2": (
        "Florence2Vision",
        "Backbone",
        {**STAGES, **PATCHES, "patch_prenorm": (False,), "window_size": 4},
        (1, 3, 32, 32),
    ),
    "deepseek_ocr2": ("DeepseekOcr2SamVision", "Encoder", {**SAM, **PIXELS}, (1, 3, 64, 64)),
}
WORKAROUNDS = {"", "cast-inputs", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    variant = os.environ.get("REPRO_VARIANT", "gemma3n").replace("-", "_")
    if util.find_spec(f"transformers.models.{variant}") is None:
        sys.exit(125)
    part, kind, sizes, shape = PARTS[variant]
    module = import_module(f"transformers.models.{variant}.modeling_{variant}")
    config = getattr(module, f"{part}Config")(**sizes)
    tower: PreTrainedModel = getattr(module, f"{part}{kind}")(config).to(device, dtype).eval()
    inputs = torch.randn(shape, device=device)
    masks = [torch.zeros(1, 48, device=device, dtype=torch.bool)] if variant == "gemma3n" else []
    found = tower(inputs.to(dtype), *masks)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        if workaround != "cast-inputs":
            found = tower(inputs, *masks)
    first = found if torch.is_tensor(found) else found[0]
    assert first.isfinite().all(), "non-finite features"


if __name__ == "__main__":
    main(*sys.argv[1:])
