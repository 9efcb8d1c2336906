# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Moshi gives other logits with a cache than without for prompts longer than its window"
# reports = []
# found-by = "sweep"
# area = "attention-mask"
# models = ["moshi"]
# trigger = ["generate"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# wide-window = "Set sliding_window to the longest sequence that is expected."
# full-cache = "Pass a DynamicCache that was made without the config, which keeps all tokens."
#
# [tool.repromatrix.snippets]
# wide-window = "config = MoshiConfig(**options, sliding_window=longest)"
# full-cache = "made = model.generate(ids, past_key_values=DynamicCache())"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56.0"]
# precisions = ["fp32", "bf16"]
# raises = "AssertionError"
# match = "the cache changes the logits"
# where = "moshi_sliding_window_mask:main"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.2.0"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "the cache changes the logits"
# where = "moshi_sliding_window_mask:main"
# ///
"""Moshi must generate with its cache as without one, also beyond the sliding window.

The dynamic cache keeps the last `sliding_window` tokens since it is made from the config, but the
mask does not fit it: `MoshiModel.forward` builds one for full causal attention. Before that it
counted the keys of the shortened cache from the start of the text and masked them all by the same
number, which swallows the scores, but not on a CPU in fp16, where that number is small.
"""

import os
import sys

import torch
from transformers import DynamicCache, MoshiConfig, MoshiForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"head_dim": 16, "ffn_dim": 64, "max_position_embeddings": 64, "audio_vocab_size": 32}
NEW = {"max_new_tokens": 2, "min_new_tokens": 2, "do_sample": False, "pad_token_id": 0}
KEEP = {"return_dict_in_generate": True, "output_logits": True}
WORKAROUNDS = {"", "wide-window", "full-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    window = 64 if workaround == "wide-window" else 4
    model = MoshiForCausalLM(MoshiConfig(**SIZES, sliding_window=window)).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=1.0 if "embed" in name else 0.2)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 12), device=device)
    past = {"past_key_values": DynamicCache()} if workaround == "full-cache" else {}
    with torch.no_grad():
        exact = model.generate(ids, use_cache=False, **NEW, **KEEP).logits[1].float()
        found = model.generate(ids, **past, **NEW, **KEEP).logits[1].float()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.06, "the cache changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
