# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "ImageGPT layer norm returns zeros in fp16 for activations above 256"
# reports = []
# found-by = "measurement"
# area = "normalisation"
# models = ["imagegpt"]
# trigger = ["load", "cast", "forward"]
# symptom = ["wrong-numbers"]
# simulates = """
# The embeddings are scaled so that activations peak near 1000, as single channels of large \
# decoders do; all weights are random."""
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
# norms-fp32 = "Keep every norm in fp32, and cast its input and output."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(pixels)'''
# norms-fp32 = '''
# for module in model.modules():
#     if "Norm" in type(module).__name__:
#         module.float()
#         module.register_forward_pre_hook(lambda _, args: (args[0].float(),))
#         module.register_forward_hook(lambda _, __, out: out.to(dtype))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "finite states, far from those of fp32"
# where = "imagegpt_norm_squares_fp16:main"
# note = "Silent: the mean of the squares is inf, and what is divided by inf is zero, not NaN."
# ///
"""ImageGPT must return in 16 bit the hidden states that it returns in fp32.

Unlike torch's and most others of the library, its norm squares and averages in the dtype of its
input. Squares of values above 256 are inf in fp16, and the norm silently returns zeros: the states
have a relative error of 1. The activations are synthetic: embeddings with a standard deviation of
300 stand for the large channels of trained decoders. No report is known of a checkpoint that
reaches them; the case shows the mechanism.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import ImageGPTConfig, ImageGPTModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2}
WORKAROUNDS = {"", "autocast", "norms-fp32"}
measured: dict[str, float] = {}


def keep_norms_in_fp32(model: ImageGPTModel, dtype: torch.dtype) -> None:
    for module in model.modules():
        if "Norm" in type(module).__name__:
            module.float()
            module.register_forward_pre_hook(lambda _, args: (args[0].float(),))
            module.register_forward_hook(lambda _, __, out: out.to(dtype))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = ImageGPTModel(ImageGPTConfig(**SIZES)).eval().to(device)
    model.wte.weight.normal_(std=300)
    pixels = torch.arange(5, 17, device=device)[None]
    exact = model(pixels, output_hidden_states=True)
    measured["fp32_peak"] = max(x.abs().max().item() for x in exact.hidden_states)
    autocast = workaround == "autocast"
    model.to(torch.float32 if autocast else dtype)
    if workaround == "norms-fp32":
        keep_norms_in_fp32(model, dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        states = model(pixels)[0].float()
    assert states.isfinite().all(), "non-finite states"
    error = (states - exact[0]).norm() / exact[0].norm()
    measured["output_relative_error"] = error.item()
    assert measured["output_relative_error"] < 0.1, "finite states, far from those of fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
