# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "T5 cast to fp16 after loading: clamped hidden states, and noise for an image"
# reports = [
#     "https://github.com/huggingface/diffusers/issues/8604",
#     "https://github.com/huggingface/diffusers/issues/7693",
#     "https://github.com/huggingface/transformers/issues/5651",
# ]
# area = "feed-forward"
# models = ["t5"]
# same-code = ["mt5", "umt5"]
# trigger = ["cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# load-half = "Load in fp16 instead of casting: loading keeps the layers `wo` in fp32."
# wo-fp32 = "Cast the layers `wo` back to fp32 after the cast."
#
# [tool.repromatrix.snippets]
# load-half = "model = T5EncoderModel.from_pretrained(name, torch_dtype=dtype)"
# wo-fp32 = '''
# for wo in wos:  # block.layer[-1].DenseReluDense.wo of each block
#     wo.float()'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "the encoder's output is off"
# where = "t5_cast_overflow_half:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/diffusers/issues/8604"
# says = "Loading in fp16 gives a good result, loading and then casting to fp16 gives noise."
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/diffusers/issues/8604"
# says = "Loading in fp16 gives a good result."
# precisions = ["fp16"]
# workaround = "load-half"
# outcome = "passes"
# ///
"""The encoder of T5 must compute in 16 bit about what it computes in fp32.

The output of the feed-forward layers of a trained T5 exceeds 65504 in places. Loading in fp16 keeps
their layer `wo` in fp32, and `.to(torch.float16)` on the loaded model does not; what overflows is
clamped in the model, so that nothing is infinite. The weights of these layers are scaled here, for
their output to be as large.
"""

import os
import sys
import tempfile

import torch
from transformers import T5Config, T5EncoderModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
WORKAROUNDS = {"", "load-half", "wo-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = T5EncoderModel(T5Config(**SIZES)).to(device).eval()
    ids = torch.randint(5, 90, (1, 8), device=device)
    wos = []
    for block in model.encoder.block:
        layer = block.layer[-1].DenseReluDense
        layer.wi.weight *= 100
        layer.wo.weight *= 1000
        wos.append(layer.wo)
    exact = model(input_ids=ids).last_hidden_state
    if workaround == "load-half":
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            model = T5EncoderModel.from_pretrained(folder, torch_dtype=dtype).to(device).eval()
    else:
        model.to(dtype)
    if workaround == "wo-fp32":
        for wo in wos:
            wo.float()
    found = model(input_ids=ids).last_hidden_state.float()
    measured["output_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["output_relative_error"] < 0.1, "the encoder's output is off"


if __name__ == "__main__":
    main(*sys.argv[1:])
