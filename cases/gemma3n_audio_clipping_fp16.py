# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53"]
#
# [tool.repromatrix]
# title = "Gemma 3n audio tower returns NaN in fp16: gradient_clipping becomes infinity"
# reports = []
# found-by = "measurement"
# area = "overflow"
# models = ["gemma3n"]
# trigger = ["load", "forward"]
# symptom = ["nan-or-inf"]
# simulates = """
# The weights of one depthwise convolution are set to 60000 to cause the overflow; all others are \
# random."""
#
# [tool.repromatrix.workarounds]
# lower-bound = "Set gradient_clipping in the audio config to 65504, the maximum of fp16."
# cast-after-load = "Load in fp32 and call .to(dtype) (.half() for fp16) on the loaded model."
#
# [tool.repromatrix.snippets]
# lower-bound = "config.gradient_clipping = torch.finfo(torch.float16).max"
# cast-after-load = "tower = Gemma3nAudioEncoder(config).to(dtype)  # built in fp32"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53,<5.20"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "an overflow was not clipped"
# where = "gemma3n_audio_clipping_fp16:main"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53"]
# precisions = ["fp16"]
# workarounds = ["cast-after-load"]
# raises = "AssertionError"
# match = "an overflow was not clipped"
# where = "gemma3n_audio_clipping_fp16:main"
# note = "The cast turns the bound into infinity, on every release."
# trigger = ["cast", "forward"]
# ///
"""Gemma 3n's audio tower must clip an activation that overflows in fp16 to a finite value.

`gradient_clipping`, the bound for activations, is a buffer in the dtype of the model, and its
default of 1e10 is inf in fp16: an overflow is not clipped, and the next norm returns NaN. Since
5.20 a model built in fp16 is safe; one that is cast to fp16 is not. The overflow is synthetic: one
convolution has weights of 6e4, and the tower is built under fp16 as default dtype in place of
`from_pretrained`. No report is known of a trained checkpoint that overflows there.
"""

import os
import sys

import torch
from transformers import Gemma3nAudioConfig, Gemma3nAudioEncoder

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "lower-bound", "cast-after-load"}
SIZES = {"hidden_size": 16, "conf_num_attention_heads": 2, "conf_num_hidden_layers": 1}
FEATURES, FRAMES = 16, 48
SUBSAMPLING = {"input_feat_size": FEATURES, "sscp_conv_channel_size": (4, 4)}
measured: dict[str, float] = {}


def build_in(dtype: torch.dtype, config: Gemma3nAudioConfig) -> Gemma3nAudioEncoder:
    torch.set_default_dtype(dtype)  # as the loader does it
    try:
        return Gemma3nAudioEncoder(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Gemma3nAudioConfig(**SIZES, **SUBSAMPLING)
    if workaround == "lower-bound":
        config.gradient_clipping = torch.finfo(torch.float16).max
    tower = build_in(torch.float32 if workaround == "cast-after-load" else dtype, config)
    tower.to(device, dtype)
    convolution = tower.conformer[0].lconv1d
    torch.nn.init.normal_(convolution.linear_start.weight)
    torch.nn.init.constant_(convolution.depthwise_conv1d.weight, 6e4)
    measured["bound"] = min(convolution.gradient_clipping.item(), 1e38)
    sound = torch.randn(1, FRAMES, FEATURES, device=device, dtype=dtype)
    padding = torch.zeros(1, FRAMES, device=device, dtype=torch.bool)
    with torch.no_grad():
        heard = tower(sound, padding)[0]
    measured["nonfinite_share"] = 1 - heard.isfinite().float().mean().item()
    assert measured["nonfinite_share"] == 0, "an overflow was not clipped"


if __name__ == "__main__":
    main(*sys.argv[1:])
