# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "UMT5 with gradient checkpointing skips all of its layers and does not train them"
# reports = []
# found-by = "sweep"
# area = "gradient-checkpointing"
# models = ["umt5"]
# trigger = ["forward", "backward"]
# symptom = ["not-trained", "wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# non-reentrant = "Turn gradient checkpointing on with use_reentrant set to False."
# no-checkpointing = { says = "Train without gradient checkpointing.", skips = true }
#
# [tool.repromatrix.snippets]
# non-reentrant = '''
# options = {"use_reentrant": False}
# model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<4.53"]
# workarounds = ["", "non-reentrant"]
# raises = "AssertionError"
# match = "checkpointing changes the logits"
# where = "umt5_checkpointing_skips_layers:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38913"
# note = """
# Training goes on without a word: the loss is that of the embeddings and the head alone, and of \
# the weights only these and the last norm get a gradient."""
# ///
"""With gradient checkpointing UMT5 must compute in training what it computes without it.

Until 4.52 `UMT5Stack.forward` took over what a layer returns only where it was not checkpointed: the
output of every checkpointed layer was dropped, in the encoder and in the decoder. 4.53 has one call
for both.
"""

import os
import sys

import torch
from transformers import UMT5Config, UMT5ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
WORKAROUNDS = {"", "non-reentrant", "no-checkpointing"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = UMT5Config(**SIZES, dropout_rate=0.0, decoder_start_token_id=0)
    model = UMT5ForConditionalGeneration(config).to(device, dtype).train()
    ids, labels = torch.randint(5, 90, (2, 2, 12), device=device)
    wanted = model(input_ids=ids, labels=labels).logits.double()
    if workaround == "non-reentrant":
        options = {"use_reentrant": False}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    elif workaround != "no-checkpointing":
        model.gradient_checkpointing_enable()
    result = model(input_ids=ids, labels=labels)
    result.loss.backward()
    lost = [one.grad is None for one in model.parameters()]
    found = result.logits.double()
    measured["without_gradient_share"] = sum(lost) / len(lost)
    measured["tokens_changed"] = (wanted.argmax(-1) != found.argmax(-1)).double().mean().item()
    measured["logits_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["logits_relative_error"] < 0.05, "checkpointing changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
