# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Llama cast to 16 bit rounds inv_freq: rotary angles at 4096 tokens are wrong"
# reports = [
#     "https://github.com/huggingface/transformers/issues/25681",
#     "https://github.com/huggingface/transformers/issues/29496",
# ]
# area = "rotary-embedding"
# models = "any"
# shown-with = ["llama", "mistral", "qwen2"]
# variants = ["llama", "mistral", "qwen2"]
# concerns = """
# Every model that keeps its rotary frequencies in a buffer, as Llama does; models without rotary
# embeddings cannot meet it."""
# trigger = ["cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# frequencies-back = "Put the fp32 inv_freq back into model.rotary_emb after the cast."
# cast-weights-only = "Cast the parameters, not the buffers: p.data = p.data.to(dtype)."
# load-in-dtype = "Load the model with from_pretrained in that dtype instead of casting it."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# frequencies-back = '''
# frequencies = model.model.rotary_emb.inv_freq  # before model.to(dtype)
# model.model.rotary_emb.inv_freq = frequencies  # and after it'''
# cast-weights-only = '''
# for parameter in model.parameters():
#     parameter.data = parameter.data.to(dtype)'''
# load-in-dtype = "model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype)"
# autocast = '''
# # with the weights in fp32
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "cos far from that of fp32"
# where = "llama_rotary_frequencies_half:main"
# note = "Silent. The largest error of cos is 0.69 in bf16 and 0.26 in fp16; rounding cos is 0.002."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/25681"
# says = "Autocast instead of a cast avoids it."
# precisions = ["bf16", "fp16"]
# workaround = "autocast"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/29496"
# says = "Models that upcast inv_freq to fp32 before use, as Llama does, are not affected."
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""A 16-bit Llama must rotate position 4096 by the same angle as in fp32.

After `.to(dtype)` it does not: `inv_freq` is a buffer, so the cast rounds it; `.float()` in the
forward pass cannot restore it, and the position multiplies the error: 0.2 % of 4096 is more than a
full turn. `from_pretrained` computes the buffer in fp32 and leaves it there. Here every eighth
position up to 4096 has a token.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 8192}
# With it attention scores are of the order of 1; with the default 0.02 positions hardly matter.
SPREAD = {"initializer_range": 0.2}
WORKAROUNDS = {"", "frequencies-back", "cast-weights-only", "load-in-dtype", "autocast"}
measured: dict[str, float] = {}


def in_dtype(model: PreTrainedModel, dtype: torch.dtype, workaround: str) -> PreTrainedModel:
    if workaround == "load-in-dtype":
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            return AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype)
    if workaround == "cast-weights-only":
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        return model
    frequencies = model.model.rotary_emb.inv_freq
    model.to(dtype)
    if workaround == "frequencies-back":
        model.model.rotary_emb.inv_freq = frequencies
    return model


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    variant = os.environ.get("REPRO_VARIANT", "llama")
    config = AutoConfig.for_model(variant, **SIZES, **HEADS, **SPREAD)
    model, seen = AutoModelForCausalLM.from_config(config).eval(), []
    positions = torch.arange(0, 4104, 8)[None]
    ids = torch.randint(5, 90, positions.shape)
    cos = model.model.rotary_emb(torch.zeros(1), positions)[0]
    exact = model(input_ids=ids, position_ids=positions).logits
    autocast = workaround == "autocast"
    model = (model if autocast else in_dtype(model, dtype, workaround)).to(device)
    model.model.rotary_emb.register_forward_hook(lambda *args: seen.append(args[-1][0].cpu()))
    with torch.autocast(device, dtype) if autocast else nullcontext():
        logits = model(input_ids=ids.to(device), position_ids=positions.to(device)).logits.cpu()
    measured["logits_relative_error"] = ((logits - exact).norm() / exact.norm()).item()
    changed = logits.max(-1).indices != exact.max(-1).indices
    measured["tokens_changed"] = changed.float().mean().item()
    measured["largest_error_of_cos"] = (seen[0] - cos).abs().max().item()
    assert measured["largest_error_of_cos"] < 0.05, "cos far from that of fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
