# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "RWKV mixes the rows of a batch when it continues from its state"
# reports = []
# found-by = "sweep"
# area = "state-space"
# models = ["rwkv"]
# trigger = ["generate", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# no-state = "Pass all tokens again instead of the state (generate with use_cache=False)."
# one-by-one = "Run the rows one at a time, each with its own state."
# two-tokens = "Continue with two tokens at a time or more, where the model shifts correctly."
#
# [tool.repromatrix.snippets]
# no-state = "outputs = model(ids, use_cache=False)"
# one-by-one = '''
# for row in ids:
#     state = model(row[None, :-1], use_cache=True).state
#     outputs = model(row[None, -1:], state=state, use_cache=True)'''
# two-tokens = "outputs = model(ids[:, -2:], state=state, use_cache=True)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "the rows of the batch are mixed"
# where = "rwkv_batch_state:main"
# ///
"""RWKV must give the same logits for the next token of a batch with its state as without it.

Where one token continues from a state, `RwkvSelfAttention.extract_key_value` and
`RwkvFeedForward.forward` mix the token, of shape (batch, 1, hidden), with the last token of the
state, of shape (batch, hidden). This broadcasts over the batch: each row becomes a sequence of
mixtures with all rows. A batch of one is right.
"""

import os
import sys

import torch
from transformers import RwkvConfig, RwkvForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "context_length": 64}
WORKAROUNDS = {"", "no-state", "one-by-one", "two-tokens"}
measured: dict[str, float] = {}


def continued(model: torch.nn.Module, ids: torch.Tensor, new: int) -> torch.Tensor:
    state = model(ids[:, :-new], use_cache=True).state
    return model(ids[:, -new:], state=state, use_cache=True).logits[:, -1].float()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = RwkvForCausalLM(RwkvConfig(**SIZES)).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.2)
        elif "time_mix" in name:
            torch.nn.init.uniform_(parameter, 0.2, 0.8)
    ids = torch.randint(5, 90, (3, 8), device=device)
    with torch.no_grad():
        exact = model.to(device)(ids, use_cache=False).logits[:, -1].float()
        model.to(dtype)
        if workaround == "no-state":
            found = model(ids, use_cache=False).logits[:, -1].float()
        elif workaround == "one-by-one":
            found = torch.cat([continued(model, row[None], 1) for row in ids])
        else:
            found = continued(model, ids, 2 if workaround == "two-tokens" else 1)
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.12, "the rows of the batch are mixed"


if __name__ == "__main__":
    main(*sys.argv[1:])
