# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "T5 under autocast with left-padded decoder inputs returns NaN"
# reports = []
# found-by = "measurement"
# area = "attention-mask"
# models = ["t5"]
# trigger = ["autocast"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# pad-right = "Pad the decoder inputs on the right, so that no row is fully masked."
# cast-weights = "Cast the model to 16 bit instead of using autocast."
#
# [tool.repromatrix.snippets]
# pad-right = "mask[row, length:] = 0  # the padding at the end of the row"
# cast-weights = "model.to(dtype)  # and no torch.autocast"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "NaN in the logits of real tokens"
# where = "t5_decoder_padding_autocast:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47014"
# note = "The change that gave T5 other attention kernels, default since, dropped the sum in place."
# ///
"""T5 must return finite logits under autocast when decoder inputs are padded on the left.

Until 5.14 the position bias with the mask, in fp32, was added in place to 16-bit scores: the
minimum of fp32 overflowed to -inf, the fully masked rows of padding tokens became NaN, and NaN
times the zero weight of a masked key is NaN for every later token too.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import T5Config, T5ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
WORKAROUNDS = {"", "pad-right", "cast-weights"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = T5ForConditionalGeneration(T5Config(**SIZES)).to(device).eval()
    if workaround == "cast-weights":
        model.to(dtype)
    mixed = precision != "fp32" and workaround != "cast-weights"
    ids, mask = torch.randint(5, 90, (2, 8), device=device), torch.ones(2, 8, device=device)
    padding = slice(5, 8) if workaround == "pad-right" else slice(0, 3)
    mask[0, padding] = 0
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model(input_ids=ids, decoder_input_ids=ids, decoder_attention_mask=mask).logits
    measured["nonfinite_share"] = (~logits[mask > 0].isfinite()).float().mean().item()
    assert measured["nonfinite_share"] == 0, "NaN in the logits of real tokens"


if __name__ == "__main__":
    main(*sys.argv[1:])
