# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "from_config(dtype=...) sets the dtype of the weights but not config.dtype"
# reports = ["https://github.com/huggingface/transformers/issues/46512"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model built with AutoModel.from_config and a dtype; a config that already names that dtype
# cannot meet it."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# set-config = "Set config.torch_dtype (config.dtype from 4.56) before building the model."
#
# [tool.repromatrix.snippets]
# set-config = "config.torch_dtype = dtype  # before the model is built"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.12"]
# raises = "AssertionError"
# match = "the config does not name the dtype of the weights"
# where = "llama_config_dtype_stale:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46514"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46512"
# says = "The config says None for a model that was built in float16."
# when = ["transformers>=5.10,<5.11"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""The config of a model that is built with `from_config(dtype=...)` must name that dtype.

Until 5.11 the dtype was applied to the weights only, and `config.dtype` kept what it had said
before. `from_pretrained` is not tried here.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
CONFIG = {**LAYERS, "intermediate_size": 32, "vocab_size": 99}
WORKAROUNDS = {"", "set-config"}


def build(config: LlamaConfig, device: str, dtype: torch.dtype) -> LlamaForCausalLM:
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, torch_dtype=dtype)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**CONFIG)
    if workaround == "set-config":
        config.torch_dtype = dtype
    model = build(config, device, dtype)
    assert model.dtype == dtype, "the weights are not in the requested dtype"
    assert model.config.torch_dtype == dtype, "the config does not name the dtype of the weights"


if __name__ == "__main__":
    main(*sys.argv[1:])
