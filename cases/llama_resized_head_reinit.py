# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "An untied output layer is random after resize_token_embeddings and post_init"
# reports = ["https://github.com/huggingface/transformers/issues/35141"]
# area = "embeddings"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with an output layer of its own that is resized before post_init is called, as where
# a class of your own resizes a part in its constructor; tied output layers cannot meet it."""
# trigger = ["load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# post-init-first = "Call post_init before the embeddings are resized."
# mark = "Set _is_hf_initialized = True on the resized output layer."
#
# [tool.repromatrix.snippets]
# post-init-first = '''
# model.post_init()
# model.resize_token_embeddings(size)'''
# mark = "model.lm_head._is_hf_initialized = True  # before model.post_init()"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.5"]
# raises = "AssertionError"
# match = "the output layer lost its rows"
# where = "llama_resized_head_reinit:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45079"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/35141"
# says = "The output embeddings are initialised again, if they are not tied."
# when = ["transformers>=4.49,<5.5"]
# outcome = "fails"
# ///
"""Resized output embeddings must keep the rows of the old ones when `post_init` is called later.

Resizing makes a new layer and copies the rows into it, but does not mark it as initialised. A
constructor that calls `post_init` at its end, as it should, fills the layer with random values.
"""

import os
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": False}
WORKAROUNDS = {"", "post-init-first", "mark"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).to(device, dtype).eval()
    ids = torch.arange(16, device=device)[None]
    exact = model(ids).logits.float()
    if workaround == "post-init-first":
        model.post_init()
    model.resize_token_embeddings(104, mean_resizing=False)
    if workaround == "mark":
        vars(model.lm_head)["_is_hf_initialized"] = True
    if workaround != "post-init-first":
        model.post_init()
    found = model(ids).logits[..., :99].float()
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.05, "the output layer lost its rows"


if __name__ == "__main__":
    main(*sys.argv[1:])
