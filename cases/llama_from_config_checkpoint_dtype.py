# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "from_config without dtype builds 16-bit weights from the config of a 16-bit checkpoint"
# reports = [
#     "https://github.com/huggingface/transformers/issues/36567",
#     "https://github.com/mosaicml/llm-foundry/pull/1734",
# ]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model that AutoModel.from_config builds from a config that names a 16-bit dtype, as for
# pretraining; the class itself, called with the config, ignores the dtype."""
# trigger = ["load", "backward"]
# symptom = ["wrong-dtype"]
# kind = "change"
#
# [tool.repromatrix.workarounds]
# explicit = "Pass dtype=torch.float32 (torch_dtype before 4.56)."
# own-class = "Build the model by calling its class with the config."
#
# [tool.repromatrix.snippets]
# explicit = "model = AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32)"
# own-class = "model = LlamaForCausalLM(config)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the weights are not in fp32"
# where = "llama_from_config_checkpoint_dtype:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36567"
# says = "4.49 builds the model in the dtype that its config names."
# when = ["transformers>=4.49,<4.50"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A model built by `from_config` without a dtype has fp32 weights, which small updates can change.

Up to 4.48 the dtype in the config was not obeyed here. Code that trains what it builds, and trusts
in fp32 weights, trains 16-bit weights since. `updates_lost` is the share of elements of the last
layer norm that a step of 1e-3 should have changed, and did not.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "explicit", "own-class"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, **HEADS, torch_dtype=dtype)
    asked = {"torch_dtype": torch.float32} if workaround == "explicit" else {}
    build = LlamaForCausalLM if workaround == "own-class" else AutoModelForCausalLM.from_config
    model = build(config, **asked).to(device)
    norm, ids = model.model.norm.weight, torch.randint(0, 99, (2, 8), device=device)
    before = norm.detach().clone()
    with torch.autocast(device, dtype, enabled=dtype is not torch.float32):
        model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.SGD([norm], lr=1e-3 / norm.grad.abs().mean().item()).step()
    measured["updates_lost"] = (norm == before).float().mean().item()
    dtypes = {value.dtype for value in model.state_dict().values() if value.is_floating_point()}
    assert dtypes == {torch.float32}, "the weights are not in fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
