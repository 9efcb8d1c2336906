# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "FastSpeech2Conformer cannot speak in 16 bit: it stretches its states in fp32"
# reports = []
# found-by = "measurement"
# area = "audio-tower"
# models = ["fastspeech2-conformer"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
# decoder-fp32 = "Cast model.decoder and model.speech_decoder_postnet back to fp32."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Input type (float) and bias type ("
# ///
"""FastSpeech2Conformer must be able to speak in 16 bit.

It is not: the length regulator repeats each encoded letter as often as it is long, into a tensor
that is always fp32, and the decoder's convolutions do not take fp32 for their 16-bit weights.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import FastSpeech2ConformerConfig, FastSpeech2ConformerModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "autocast", "decoder-fp32"}
SIZES = {"hidden_size": 16, "vocab_size": 20, "num_mel_bins": 8, "speech_decoder_postnet_units": 8}
ENCODER = {"encoder_layers": 1, "encoder_linear_units": 16, "encoder_num_attention_heads": 2}
DECODER = {"decoder_layers": 1, "decoder_linear_units": 16, "decoder_num_attention_heads": 2}
PREDICTORS = {f"{what}_predictor_channels": 8 for what in ("pitch", "energy", "duration")}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = FastSpeech2ConformerConfig(**SIZES, **ENCODER, **DECODER, **PREDICTORS)
    model = FastSpeech2ConformerModel(config).to(device).eval()
    autocast = workaround == "autocast" and precision != "fp32"
    if not autocast:
        model.to(dtype)
    if workaround == "decoder-fp32":
        model.decoder.float()
        model.speech_decoder_postnet.float()
    letters = torch.randint(1, 20, (1, 10), device=device)
    with torch.no_grad(), torch.autocast(device, dtype) if autocast else nullcontext():
        spectrogram = model(letters, attention_mask=torch.ones_like(letters)).spectrogram
    assert spectrogram.isfinite().all(), "non-finite spectrogram"


if __name__ == "__main__":
    main(*sys.argv[1:])
