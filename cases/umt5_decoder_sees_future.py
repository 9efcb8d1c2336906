# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "The decoder of UMT5 attends to later tokens under SDPA"
# reports = []
# found-by = "sweep"
# area = "attention-mask"
# models = ["umt5"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation='eager', which is given a mask."
#
# [tool.repromatrix.snippets]
# eager = 'model = AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager")'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.15.0,<5.18.0"]
# raises = "AssertionError"
# match = "a later token changes earlier logits"
# where = "umt5_decoder_sees_future:main"
# ///
"""What the decoder of UMT5 computes for a token must not depend on those that follow.

Without padding no mask is made for SDPA, which is told by a flag to be causal. When the family of T5
got SDPA in 5.15, `UMT5LayerSelfAttention` left that flag of its attention at False: training saw
the answer, and generating with a cache did not compute what was trained. 5.18 sets it for decoders.
"""

import os
import sys

import torch
from transformers import AutoModelForSeq2SeqLM, UMT5Config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
WORKAROUNDS = {"", "eager"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    how = {"attn_implementation": "eager"} if workaround == "eager" else {}
    config = UMT5Config(**SIZES, decoder_start_token_id=0)
    model = AutoModelForSeq2SeqLM.from_config(config, **how).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=1.0 if "shared" in name else 0.2)
    model.to(device, dtype)
    ids, answer = torch.randint(5, 90, (2, 1, 8), device=device)
    later = torch.cat([answer[:, :-2], answer[:, -2:].flip(-1)], dim=-1)
    with torch.no_grad():
        one = model(input_ids=ids, decoder_input_ids=answer).logits[:, :-2].float()
        other = model(input_ids=ids, decoder_input_ids=later).logits[:, :-2].float()
    measured["logits_relative_error"] = float((one - other).norm() / one.norm())
    assert measured["logits_relative_error"] < 5e-4, "a later token changes earlier logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
