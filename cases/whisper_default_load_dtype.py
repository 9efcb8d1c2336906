# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Whisper loaded without dtype in 5.x fails on fp32 features: 'Input type (float)'"
# reports = ["https://github.com/huggingface/transformers/issues/47805"]
# area = "loading"
# models = ["whisper"]
# trigger = ["load", "forward"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# load-fp32 = { says = "Load with dtype=torch.float32 (torch_dtype before 4.56).", skips = true }
# cast-features = "Cast input_features to the dtype of the model."
#
# [tool.repromatrix.snippets]
# load-fp32 = "model = WhisperModel.from_pretrained(name, torch_dtype=torch.float32)"
# cast-features = "features = features.to(model.dtype)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Input type (float) and bias type (c10::",
#     "Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.",
#     "Input type (float) and bias type (struct c10::",
# ]
# where = "transformers.models.whisper.modeling_whisper:WhisperEncoder.forward"
# note = "https://github.com/huggingface/transformers/pull/47816 proposes to mend it."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47805"
# says = "On 5.7.0 the encoder of a float16 checkpoint refuses the features of its own extractor."
# when = ["transformers==5.7.0"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""Whisper loaded without a requested dtype must accept the fp32 features of its feature extractor.

Since 5.0 it does not: the default dtype is that of the checkpoint, and the first convolution of the
encoder gets fp32 features with 16-bit weights.
"""

import os
import sys
import tempfile

import torch
from transformers import WhisperConfig, WhisperModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
FEED_FORWARD = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
AUDIO = {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}
TOKENS = {"vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WORKAROUNDS = {"", "load-fp32", "cast-features"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = WhisperConfig(**LAYERS, **HEADS, **FEED_FORWARD, **AUDIO, **TOKENS)
    wish = {"torch_dtype": torch.float32} if workaround == "load-fp32" else {}
    with tempfile.TemporaryDirectory() as folder:
        WhisperModel(config).to(dtype).save_pretrained(folder)
        model = WhisperModel.from_pretrained(folder, **wish).to(device).eval()
    measured["in_16_bit"] = float(model.dtype != torch.float32)
    features = torch.randn(1, 8, 32, device=device)
    if workaround == "cast-features":
        features = features.to(model.dtype)
    model.encoder(features)


if __name__ == "__main__":
    main(*sys.argv[1:])
