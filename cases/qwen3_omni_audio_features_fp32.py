# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.57"]
#
# [tool.repromatrix]
# title = "Qwen3-Omni in 16 bit rejects the fp32 audio features that its own processor makes"
# reports = []
# found-by = "measurement"
# area = "audio-tower"
# models = ["qwen3-omni"]
#
# [tool.repromatrix.workarounds]
# cast-features = "Cast input_features to the dtype of the model."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Input type (float) and bias type ("
# ///
"""Qwen3-Omni's audio tower must accept the fp32 features of its feature extractor in 16 bit.

It did not: the features went into the first convolution as they came, without a cast to the
dtype of its weights. The reference is what the tower hears when they are cast before.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as qwen

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-features", "autocast"}
SIZES = {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32}
SOUND = {"num_mel_bins": 8, "max_source_positions": 16, "n_window": 50, "n_window_infer": 100}
FRAMES = 100


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = qwen.Qwen3OmniMoeAudioEncoderConfig(
        **SIZES, **SOUND, output_dim=16, downsample_hidden_size=4, attn_implementation="eager"
    )
    autocast = workaround == "autocast" and precision != "fp32"
    tower = qwen.Qwen3OmniMoeAudioEncoder(config).to(device).eval()
    if not autocast:
        tower.to(dtype)
    features = torch.randn(8, FRAMES, device=device)
    length = torch.tensor([FRAMES], device=device)
    with torch.no_grad(), torch.autocast(device, dtype) if autocast else nullcontext():
        reference = tower(features.to(dtype), feature_lens=length).last_hidden_state
        if workaround == "cast-features":
            features = features.to(dtype)
        heard = tower(features, feature_lens=length).last_hidden_state
    assert heard.equal(reference), "fp32 features are heard differently"


if __name__ == "__main__":
    main(*sys.argv[1:])
