# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53"]
#
# [tool.repromatrix]
# title = "Gemma 3n in 16 bit rejects the fp32 audio features that its own processor makes"
# reports = ["https://github.com/huggingface/transformers/pull/39743"]
# area = "audio-tower"
# models = ["gemma3n"]
#
# [tool.repromatrix.workarounds]
# cast-features = "Cast input_features to the dtype of the model."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53,<4.56"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected scalar type Float but found BFloat16",
#     "expected scalar type Float but found Half",
#     "Input type (torch.cuda.FloatTensor) and weight type (",
# ]
# fixed-by = "https://github.com/huggingface/transformers/pull/39743"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/39743"
# says = "A pipeline in bfloat16 that is given a sound raises in the first convolution."
# when = ["transformers>=4.53,<4.56"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""Gemma 3n's audio tower must accept the fp32 features of its feature extractor in 16 bit.

It did not: the features were padded and given to the first convolution as they came, without a
cast to the dtype of its weights. The reference is what the tower hears when they are cast before.
"""

import os
import sys

import torch
from transformers import Gemma3nAudioConfig, Gemma3nAudioEncoder

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-features"}
SIZES = {"hidden_size": 16, "conf_num_attention_heads": 2, "conf_num_hidden_layers": 1}
FEATURES, FRAMES = 16, 48
SUBSAMPLING = {"input_feat_size": FEATURES, "sscp_conv_channel_size": (4, 4)}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Gemma3nAudioConfig(**SIZES, **SUBSAMPLING)
    tower = Gemma3nAudioEncoder(config).to(device, dtype).eval()
    features = torch.randn(1, FRAMES, FEATURES, device=device)
    padding = torch.zeros(1, FRAMES, device=device, dtype=torch.bool)
    with torch.no_grad():
        reference = tower(features.to(dtype), padding)[0]
        if workaround == "cast-features":
            features = features.to(dtype)
        heard = tower(features, padding)[0]
    assert heard.equal(reference), "fp32 features are heard differently"


if __name__ == "__main__":
    main(*sys.argv[1:])
