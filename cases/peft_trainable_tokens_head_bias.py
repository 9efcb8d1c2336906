# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50", "peft>=0.15"]
#
# [tool.repromatrix]
# title = "Trainable tokens on a model whose tied output layer has a bias: the bias is dropped"
# reports = ["https://github.com/huggingface/peft/issues/3649"]
# area = "peft"
# models = ["bert"]
# trigger = ["adapter", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# merge = { says = "Call merge_adapter() before the model computes.", skips = true }
# lora-alone = { says = "Leave trainable_token_indices out of the config.", skips = true }
#
# [tool.repromatrix.snippets]
# merge = "model.merge_adapter()"
# lora-alone = 'config = LoraConfig(target_modules=["query"])  # no trainable_token_indices'
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.15"]
# raises = "AssertionError"
# match = "an adapter that is not trained changes logits"
# where = "peft_trainable_tokens_head_bias:main"
# note = "https://github.com/huggingface/peft/pull/3688 proposes to mend it."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/3649"
# says = "An adapter that is not trained changes the logits of BERT, in fp32 as well."
# when = ["peft>=0.19"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/3649"
# says = "Merging it restores them."
# when = ["peft>=0.19"]
# workaround = "merge"
# outcome = "passes"
# ///
"""A model must return the same with an adapter that is not trained yet as without it.

The output layer of BERT has the weight of its embeddings and a bias of its own. peft's layer for
trainable tokens stands in for both, and multiplies with the weight alone, in every precision. A new
model has a bias of zeros, so that this one is given one, as training makes it.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "merge", "lora-alone"}
measured: dict[str, float] = {}


@torch.no_grad()
def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = BertForMaskedLM(BertConfig(**SIZES, **LAYERS))
    model.get_output_embeddings().bias.normal_()
    model.to(device, dtype).eval()
    ids = torch.randint(0, 99, (2, 8), device=device)
    wanted = model(input_ids=ids).logits.float()
    tokens = {} if workaround == "lora-alone" else {"trainable_token_indices": [1, 2]}
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=["query"], **tokens)).eval()
    if workaround == "merge":
        adapted.merge_adapter()
    off = adapted(input_ids=ids).logits.float() - wanted
    measured["logits_relative_error"] = (off.norm() / wanted.norm()).item()
    assert measured["logits_relative_error"] < 0.02, "an adapter that is not trained changes logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
