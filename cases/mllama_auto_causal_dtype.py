# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51"]
#
# [tool.repromatrix]
# title = "AutoModelForCausalLM ignores the requested dtype for a composite checkpoint"
# reports = ["https://github.com/huggingface/transformers/issues/46459"]
# area = "loading"
# models = "any"
# shown-with = ["mllama"]
# concerns = """
# Every composite model whose text model AutoModelForCausalLM loads alone, such as Llama 3.2 Vision,
# Llama 4, Emu3 and Qwen3.5; models with a single config cannot meet it."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# concrete-class = "Load with the concrete class instead of AutoModelForCausalLM."
# cast-after-load = "Call .to(dtype) on the loaded model."
#
# [tool.repromatrix.snippets]
# concrete-class = "model = MllamaForCausalLM.from_pretrained(name, torch_dtype=dtype)"
# cast-after-load = "model.to(dtype)  # after from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.4,<5.12"]
# raises = "AssertionError"
# match = "the loaded model does not compute in the requested dtype"
# where = "mllama_auto_causal_dtype:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46514"
# note = "Reported for Qwen3.5; the automatic class treats Llama 3.2 Vision in the same way."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46459"
# says = "On 5.9.0 a bfloat16 checkpoint stays bfloat16 although float32 was asked for."
# when = ["transformers==5.9.0"]
# precisions = ["fp32"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46459"
# says = "The concrete class honours the same request."
# when = ["transformers==5.9.0"]
# precisions = ["fp32"]
# workaround = "concrete-class"
# outcome = "passes"
# ///
"""The text model of a composite checkpoint must be loaded in the requested dtype.

From 5.4 (transformers#41250) to 5.11 the requested dtype was set on the composite config and no
longer among the arguments; AutoModelForCausalLM then went on with the text config, which names the
dtype of the checkpoint. Reported for Qwen3.5; Llama 3.2 Vision takes the same code path. The
precision of a cell is the requested dtype: of a bf16 checkpoint for fp32, as reported, else of an
fp32 one. The concrete class, which honours the request, is loaded for comparison. 4.50 is left out:
there AutoModelForCausalLM does not know this model's text config.
"""

import os
import sys
import tempfile

import torch
from transformers import (
    AutoModelForCausalLM,
    MllamaConfig,
    MllamaForCausalLM,
    MllamaForConditionalGeneration,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "cross_attention_layers": []}
TEXT = {**LAYERS, **HEADS, "rope_scaling": {"rope_type": "default"}, "vocab_size": 99}
VISION = {**LAYERS, "num_global_layers": 1, "vision_output_dim": 32, "image_size": 28}
VISION |= {"attention_heads": 2, "intermediate_layers_indices": [0]}
LOADERS = {"": AutoModelForCausalLM, "cast-after-load": AutoModelForCausalLM}
LOADERS["concrete-class"] = MllamaForCausalLM


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    saved = torch.bfloat16 if dtype == torch.float32 else torch.float32
    config = MllamaConfig(text_config={**TEXT, "pad_token_id": 0}, vision_config=VISION)
    with tempfile.TemporaryDirectory() as folder:
        MllamaForConditionalGeneration(config).to(saved).save_pretrained(folder)
        reference = MllamaForCausalLM.from_pretrained(folder, torch_dtype=dtype).to(device)
        model = LOADERS[workaround].from_pretrained(folder, torch_dtype=dtype).to(device)
    if workaround == "cast-after-load":
        model.to(dtype)
    ids = torch.arange(8, device=device)[None]
    dtypes = [one.model(ids).last_hidden_state.dtype for one in (reference, model)]
    assert dtypes == [dtype, dtype], "the loaded model does not compute in the requested dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
