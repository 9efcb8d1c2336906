# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51", "safetensors"]
#
# [tool.repromatrix]
# title = "AutoModelForCausalLM ignores the requested dtype for a composite checkpoint"
# reports = [
#     "https://github.com/huggingface/transformers/issues/46459",
#     "https://github.com/huggingface/transformers/pull/46514",
# ]
# area = "loading"
# models = "any"
# shown-with = ["llama4"]
# concerns = """
# Every composite model whose text model AutoModelForCausalLM loads alone, such as Llama 4 and
# Qwen3.5; models with a single config cannot meet it."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# concrete-class = "Load with the concrete class instead of AutoModelForCausalLM."
# cast-after-load = "Call .to(dtype) on the loaded model."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.4,<5.12"]
# raises = "AssertionError"
# match = "the loaded model is not in the requested dtype"
# where = "llama4_auto_causal_dtype:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46514"
# note = "Reported for Qwen3.5; the automatic class treats Llama 4 in the same way."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46459"
# says = "On 5.9.0 a bfloat16 checkpoint stays bfloat16 although float32 was asked for."
# when = ["transformers==5.9.0"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46459"
# says = "The concrete class honours the same request."
# when = ["transformers==5.9.0"]
# precisions = ["bf16"]
# workaround = "concrete-class"
# outcome = "passes"
# ///
"""The text model of a composite checkpoint must be loaded in the requested dtype.

From 5.4 to 5.11 the requested dtype was set on the composite config and dropped from the arguments;
AutoModelForCausalLM then went on with the text config, which names the dtype of the checkpoint.
Reported for Qwen3.5; Llama 4 takes the same code path. The precision of a cell is that of the
checkpoint here, and another dtype is requested, so fp32 fails as well.
"""

import os
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Llama4Config, Llama4ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
EXPERTS = {"intermediate_size": 32, "intermediate_size_mlp": 32, "num_local_experts": 2}
TEXT = {**LAYERS, **EXPERTS, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 99}
LOADERS = {"": AutoModelForCausalLM, "cast-after-load": AutoModelForCausalLM}
LOADERS["concrete-class"] = Llama4ForCausalLM


def save_tiny(folder: str, dtype: torch.dtype) -> None:
    config = Llama4Config(text_config={**TEXT, "pad_token_id": 0})
    weights = Llama4ForCausalLM(config.text_config).to(dtype).state_dict()
    composite = {f"language_model.{name}": weight for name, weight in weights.items()}
    save_file(composite, f"{folder}/model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    wish = torch.bfloat16 if dtype == torch.float32 else torch.float32
    with tempfile.TemporaryDirectory() as folder:
        save_tiny(folder, dtype)
        model = LOADERS[workaround].from_pretrained(folder, torch_dtype=wish).to(device)
    if workaround == "cast-after-load":
        model.to(wish)
    assert model.dtype == wish, "the loaded model is not in the requested dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
