# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "New classification head is uninitialised after loading a model in bf16 or fp16"
# reports = [
#     "https://github.com/huggingface/transformers/pull/46030",
#     "https://github.com/huggingface/transformers/issues/46002",
# ]
# area = "loading"
# models = "any"
# shown-with = ["bert"]
# concerns = """
# Every model loaded in 16 bit from a checkpoint that lacks a layer, such as a new head; a
# complete checkpoint cannot meet it: nothing is initialised."""
# trigger = ["load"]
# symptom = ["wrong-numbers", "nan-or-inf"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Load in fp32 and call .to(dtype) on the loaded model."
# init-again = "Initialise the new head with torch.nn.init.normal_ after loading."
#
# [tool.repromatrix.snippets]
# cast-after-load = '''
# model = BertForSequenceClassification.from_pretrained(name, torch_dtype=torch.float32)
# model.to(dtype)'''
# init-again = "torch.nn.init.normal_(model.classifier.weight, std=config.initializer_range)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.8,<5.9"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the new head holds what lay in memory"
# where = "bert_new_head_uninitialised:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46030"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/46030"
# says = "Models that are in fp32 already are not affected."
# when = ["transformers>=5.8,<5.9"]
# precisions = ["fp32"]
# outcome = "passes"
# ///
"""A head that is missing from the checkpoint must be initialised in 16 bit as in fp32.

In 5.8 it holds uninitialised memory: the initialisation writes to `weight.float()`, which is a copy
unless the weight is in fp32. 5.9 initialises the weight itself. What the memory holds differs from
run to run; therefore torch fills such memory with NaN, as its deterministic mode does.
"""

import os
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
CONFIG = {**LAYERS, "intermediate_size": 32, "vocab_size": 99, "num_labels": 64}
WORKAROUNDS = {"", "cast-after-load", "init-again"}
measured: dict[str, float] = {}


def load_without_head(config: BertConfig, dtype: torch.dtype) -> BertForSequenceClassification:
    weights = BertForSequenceClassification(config).state_dict()
    kept = {name: w.to(dtype) for name, w in weights.items() if "classifier" not in name}
    return BertForSequenceClassification.from_pretrained(
        None, config=config, state_dict=kept, torch_dtype=dtype
    )


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = BertConfig(**CONFIG)
    load_dtype = torch.float32 if workaround == "cast-after-load" else dtype
    model = load_without_head(config, load_dtype).to(dtype)
    if workaround == "init-again":
        torch.nn.init.normal_(model.classifier.weight, std=config.initializer_range)
    logits = model.to(device)(torch.arange(5, 21, device=device)[None]).logits
    measured["nonfinite_share"] = 1 - logits.isfinite().float().mean().item()
    assert measured["nonfinite_share"] == 0, "the new head holds what lay in memory"


if __name__ == "__main__":
    main(*sys.argv[1:])
