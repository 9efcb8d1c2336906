# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "GPT-2 past_key_values: 'tuple' object has no attribute 'get_seq_length'"
# reports = []
# found-by = "measurement"
# kind = "change"
# area = "kv-cache"
# models = ["gpt2"]
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# dynamic-cache = "Fill a DynamicCache from the tuple with its update method."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5"]
# raises = "AttributeError"
# match = "'tuple' object has no attribute 'get_seq_length'"
# where = "transformers.models.gpt2.modeling_gpt2:GPT2Model.forward"
# note = "Every precision; up to 4.57 the tuple was converted."
# ///
"""GPT-2 must continue from keys and values that were kept as a tuple of tensors.

Prefix stores and exporters keep them so. Before 5.0 GPT-2 converted the tuple to a cache; now it
expects one, and the keys and values fit it in every precision if they are put there by hand.
"""

import os
import sys

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
WORKAROUNDS = {"", "dynamic-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = GPT2LMHeadModel(GPT2Config(**SIZES)).to(device, dtype).eval()
    ids = torch.randint(5, 90, (1, 8), device=device)
    past = tuple((layer[0], layer[1]) for layer in model(ids[:, :7]).past_key_values)
    if workaround == "dynamic-cache":
        layers, past = past, DynamicCache()
        for index, (keys, values) in enumerate(layers):
            past.update(keys, values, index)
    last = model(ids[:, 7:], past_key_values=past).logits[:, -1].float()
    whole = model(ids).logits[:, -1].float()
    measured["relative_error"] = ((last - whole).norm() / whole.norm()).item()
    assert measured["relative_error"] < 0.05, "the past changes the next token's logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
