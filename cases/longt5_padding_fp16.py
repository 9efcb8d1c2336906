# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "LongT5 with local attention returns NaN for padded inputs in fp16"
# reports = []
# found-by = "measurement"
# area = "attention-mask"
# models = ["longt5"]
# trigger = ["load", "cast", "autocast", "forward"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
# no-padding = { says = "Run without padding.", skips = true }
#
# [tool.repromatrix.snippets]
# autocast = '''
# # with the weights in fp32
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
# no-padding = "outputs = model(input_ids=ids, attention_mask=torch.ones(1, length))"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["fp16"]
# workarounds = ["", "autocast"]
# raises = "AssertionError"
# match = "NaN in the logits of a padded sample"
# where = "longt5_padding_fp16:main"
# ///
"""LongT5 must return finite logits for a padded sample in fp16, as it does in fp32 and bf16.

Its encoder masks with -1e10, which is -inf in fp16. The mask of local attention holds where both
query and key are tokens, so that every padding token is fully masked: its states become NaN, and
cross-attention spreads them. What LongT5 pads itself, to whole blocks, is cut off again and does no
harm. Transient-global attention passes.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import LongT5Config, LongT5ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
WORKAROUNDS = {"", "autocast", "no-padding"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LongT5ForConditionalGeneration(LongT5Config(**SIZES, local_radius=3)).to(device).eval()
    mixed = workaround == "autocast" and precision != "fp32"
    if not mixed:
        model.to(dtype)
    ids, mask = torch.randint(5, 90, (1, 16), device=device), torch.ones(1, 16, device=device)
    if workaround != "no-padding":
        mask[:, 4:] = 0
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=ids[:, :4]).logits
    measured["nonfinite_share"] = (~logits.isfinite()).float().mean().item()
    assert measured["nonfinite_share"] == 0, "NaN in the logits of a padded sample"


if __name__ == "__main__":
    main(*sys.argv[1:])
