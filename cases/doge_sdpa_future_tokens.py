# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.54"]
#
# [tool.repromatrix]
# title = "Doge with SDPA attends to future tokens: no causal mask is added to its dynamic mask"
# reports = [
#     "https://github.com/huggingface/transformers/issues/48748",
#     "https://github.com/huggingface/transformers/pull/48821",
# ]
# found-by = "sweep"
# area = "attention-mask"
# models = ["doge"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation=\"eager\"."
# mask-4d = "Pass a causal attention mask of four dimensions."
#
# [tool.repromatrix.snippets]
# eager = 'config = DogeConfig(**options, attn_implementation="eager")'
# mask-4d = "mask = torch.ones(1, 1, length, length, dtype=torch.bool).tril()"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54.0,<5.18.0"]
# raises = "AssertionError"
# match = "earlier logits depend on the last token"
# where = "doge_sdpa_future_tokens:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/48821"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/48748"
# says = "With SDPA, the default, logits depend on later tokens (a development version of 5.18.0)."
# when = ["transformers==5.17.0"]
# precisions = ["fp32"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/48748"
# says = "With eager attention they do not."
# when = ["transformers==5.17.0"]
# precisions = ["fp32"]
# workaround = "eager"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/48821"
# says = "It has been so since Doge was added, where a tokenizer's mask is passed."
# when = ["transformers>=4.54,<5.0"]
# outcome = "fails"
# ///
"""The logits of Doge must not depend on tokens that come later.

Until 5.17 they do with SDPA, the default: for a text without padding create_causal_mask returns
None and leaves causality to SDPA, but DogeAttention.prepare_dynamic_mask makes a mask of its own
all the same, without the causal part, and SDPA takes that one. Since 5.18 the causal mask is always
made. The last of 12 tokens is changed here; with random weights the size of the error says nothing
about a trained model.
"""

import os
import sys

import torch
from transformers import DogeConfig, DogeForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
WORKAROUNDS = {"", "eager", "mask-4d"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    attention = "eager" if workaround == "eager" else "sdpa"
    config = DogeConfig(
        **SIZES, num_attention_heads=2, initializer_range=0.2, attn_implementation=attention
    )
    model = DogeForCausalLM(config).to(device, dtype).eval()
    ids = torch.randint(5, 90, (1, 12), device=device)
    other = ids.clone()
    other[0, -1] = 95
    mask = torch.ones_like(ids)
    if workaround == "mask-4d":
        mask = torch.ones(1, 1, 12, 12, dtype=torch.bool, device=device).tril()
    wanted, found = (
        model(input_ids=each, attention_mask=mask).logits[:, :-1].double() for each in (ids, other)
    )
    measured["tokens_changed"] = (wanted.argmax(-1) != found.argmax(-1)).double().mean().item()
    measured["logits_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["logits_relative_error"] < 0.02, "earlier logits depend on the last token"


if __name__ == "__main__":
    main(*sys.argv[1:])
