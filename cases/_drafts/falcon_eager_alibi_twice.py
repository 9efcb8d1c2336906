# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Falcon with ALiBi and eager attention adds the bias of positions twice"
# reports = []
# found-by = "sweep"
# area = "attention"
# models = ["falcon"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# sdpa = "Load the model with attn_implementation='sdpa', which adds the bias once."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# raises = "AssertionError"
# match = "eager attention and SDPA differ"
# where = "falcon_eager_alibi_twice:main"
# ///
"""Falcon with ALiBi computes the same with eager attention as with SDPA.

`FalconModel.forward` adds the bias to the mask, which is all that SDPA gets of it, whatever the
attention; the eager path of `FalconAttention.forward` adds it to the scores as well. The large
checkpoints have rotary positions; `alibi` is set in those of falcon-rw.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, FalconConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 8}
WORKAROUNDS = {"", "sdpa"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    once, model = (
        AutoModelForCausalLM.from_config(
            FalconConfig(**SIZES, alibi=True, multi_query=False), attn_implementation=used
        ).eval()
        for used in ("sdpa", workaround or "eager")
    )
    for parameter in once.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.load_state_dict(once.state_dict())
    for one in (once, model):
        one.to(device, dtype)
    ids = torch.randint(0, 99, (2, 32), device=device)
    with torch.no_grad():
        wanted = once(input_ids=ids).logits.float()
        found = model(input_ids=ids).logits.float()
    measured["logits_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["logits_relative_error"] < 0.02, "eager attention and SDPA differ"


if __name__ == "__main__":
    main(*sys.argv[1:])
