# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50", "peft>=0.15"]
#
# [tool.repromatrix]
# title = "Trainable tokens or LoRA on the embeddings of Gemma 3: the embeddings are not scaled"
# reports = [
#     "https://github.com/huggingface/peft/issues/2809",
#     "https://github.com/huggingface/peft/pull/2825",
# ]
# area = "peft"
# models = ["gemma3"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers"]
# environments = ["4.53.3+peft0.15.2"]
#
# [tool.repromatrix.workarounds]
# save-whole = "Train the embeddings whole: modules_to_save=[\"embed_tokens\"]."
#
# [tool.repromatrix.snippets]
# save-whole = 'config = LoraConfig(target_modules=["q_proj"], modules_to_save=["embed_tokens"])'
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.15,<0.18"]
# raises = "AssertionError"
# match = "an adapter that is not trained changes logits"
# where = "peft_trainable_tokens_embed_scale:main"
# fixed-by = "https://github.com/huggingface/peft/pull/2825"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/2809"
# says = "With peft 0.17.1 and transformers 4.56.2 the embeddings of Gemma 3 are not scaled."
# when = ["transformers==4.56.2", "peft==0.17.1"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2825"
# says = "With the change they are."
# when = ["peft>=0.18"]
# outcome = "passes"
# ///
"""A model must return the same with an adapter that is not trained yet as without it.

The embedding layer of Gemma 3 multiplies with a scale what it looks up. peft's layer for
trainable tokens looks up by itself, in all embeddings, and up to 0.17 did not scale, in every
precision.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "head_dim": 8}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4}
WORKAROUNDS = {"", "save-whole"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, **LAYERS)).to(device, dtype).eval()
    ids = torch.randint(0, 99, (2, 8), device=device)
    wanted = model(input_ids=ids).logits.float()
    if workaround == "save-whole":
        config = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"])
    else:
        config = LoraConfig(r=4, target_modules=["q_proj"], trainable_token_indices=[1, 2])
    adapted = get_peft_model(model, config).eval()
    off = adapted(input_ids=ids).logits.float() - wanted
    measured["logits_relative_error"] = (off.norm() / wanted.norm()).item()
    assert measured["logits_relative_error"] < 0.005, (
        "an adapter that is not trained changes logits"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
