# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Autoformer in bf16 or fp16 fails in torch.fft: Unsupported dtype"
# reports = []
# found-by = "sweep"
# area = "missing-kernel"
# models = ["autoformer"]
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
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Unsupported dtype BFloat16",
#     "Unsupported dtype Half",
#     "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision",
# ]
# where = "transformers.models.autoformer.modeling_autoformer:AutoformerAttention.forward"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# devices = ["cuda"]
# workarounds = ["autocast"]
# raises = "RuntimeError"
# match = [
#     "Unsupported dtype BFloat16",
#     "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision",
# ]
# where = "transformers.models.autoformer.modeling_autoformer:AutoformerAttention.forward"
# note = "Autocast casts the input of rfft to fp32 on a CPU, not on CUDA."
# ///
"""Autoformer must run a forward pass with 16-bit weights.

`AutoformerAttention.forward` computes the autocorrelation of queries and keys with
`torch.fft.rfft` without an upcast. It has no kernel for bf16, and for fp16 none on a CPU and on CUDA
one for powers of two only. Autocast runs it in fp32 on a CPU.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import AutoformerConfig, AutoformerModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SERIES = {"context_length": 10, "prediction_length": 6, "num_time_features": 1}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "lags_sequence": [1, 2]}
WORKAROUNDS = {"", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    weights_dtype = torch.float32 if mixed else dtype
    config = AutoformerConfig(**SERIES, **LAYERS, encoder_ffn_dim=32, decoder_ffn_dim=32)
    model = AutoformerModel(config).to(device, weights_dtype).eval()
    past = torch.randn(1, 12, device=device, dtype=weights_dtype)
    future = torch.randn(1, 6, device=device, dtype=weights_dtype)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        found = model(
            past_values=past,
            past_time_features=past[..., None],
            past_observed_mask=torch.ones_like(past),
            future_values=future,
            future_time_features=future[..., None],
        )
    assert found.last_hidden_state.isfinite().all(), "non-finite states"


if __name__ == "__main__":
    main(*sys.argv[1:])
