# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.7"]
#
# [tool.repromatrix]
# title = "attach_layerwise_casting_hooks on a model with tied embeddings: no promotion of float8"
# reports = []
# found-by = "measurement"
# area = "autocast"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model whose output layer is tied to its token embeddings and whose weights accelerate stores
# in float8; models with a head of their own cannot meet it."""
# trigger = ["cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# untie = "Give the output layer a weight of its own before attaching the hooks."
# skip-head = "Name the output layer in skip_modules_pattern, so that it stays as it is."
#
# [tool.repromatrix.snippets]
# untie = "model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())"
# skip-head = 'skip_modules_pattern.append("lm_head")'
#
# [[tool.repromatrix.fails]]
# at-fault = "accelerate"
# when = ["accelerate>=1.7"]
# raises = "RuntimeError"
# match = "Promotion for Float8 Types is not supported"
# where = "transformers.models.llama.modeling_llama:LlamaRMSNorm.forward"
# ///
"""A model whose weights accelerate stores in float8 must compute, also if embeddings are tied.

Each linear layer is cast to float8, and back only while it is called. The output layer shares its
weight with the embeddings, which are no linear layer: they look tokens up in float8.
"""

import os
import sys

import torch
from accelerate.big_modeling import attach_layerwise_casting_hooks
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "untie", "skip-head"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, **HEADS, tie_word_embeddings=True)
    model = LlamaForCausalLM(config).to(device, dtype).eval()
    ids = torch.arange(8, device=device)[None]
    wanted = model(input_ids=ids).logits
    skipped = ["norm"]
    if workaround == "untie":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    if workaround == "skip-head":
        skipped.append("lm_head")
    attach_layerwise_casting_hooks(model, torch.float8_e4m3fn, dtype, skipped)
    logits = model(input_ids=ids).logits
    off = (logits - wanted).float().norm() / wanted.float().norm()
    measured["logits_relative_error"] = off.item()
    assert measured["logits_relative_error"] < 0.5, "the logits are off by more than by float8"


if __name__ == "__main__":
    main(*sys.argv[1:])
