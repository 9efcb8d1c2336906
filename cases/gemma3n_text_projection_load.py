# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53"]
#
# [tool.repromatrix]
# title = "Gemma 3n text models that 4.x saved lose per_layer_model_projection when loaded"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["gemma3n"]
# trigger = ["load", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# rename = "Give the weights in the checkpoint the names that the model has."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5.2,<5.6"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "gemma3n_text_projection_load:main"
#
# [[tool.repromatrix.fails]]
# title = "Gemma 3n text models that 4.x saved lose all of their weights when loaded"
# when = ["transformers>=5.6,<5.10"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "gemma3n_text_projection_load:main"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.10"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "gemma3n_text_projection_load:main"
# ///
"""A Gemma3nForCausalLM must be loaded whole from a checkpoint that 4.x saved.

Up to 5.5.1 saving wrote `model.language_model` for each `model` in the name of a weight, also for
the one in `per_layer_model_projection`, and loading took it back. Since 5.5.2 only the prefix is
taken off: the projection of the per-layer inputs is not found and is initialised anew. 5.6 to 5.9
take nothing off and find none of the weights.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Gemma3nForCausalLM, Gemma3nTextConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
LAYERS = {"layer_types": ["full_attention"], "num_kv_shared_layers": 0, "laurel_rank": 4}
INPUTS = {"vocab_size_per_layer_input": 99, "hidden_size_per_layer_input": 16}
CONFIG = {**SIZES, **HEADS, **LAYERS, **INPUTS, "activation_sparsity_pattern": [0.0]}
WORKAROUNDS = {"", "rename"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Gemma3nTextConfig(**CONFIG, initializer_range=0.2)
    model = Gemma3nForCausalLM(config)
    model.model.layers[0].altup.correct_output_scale.fill_(1.0)  # zero hides the per-layer inputs
    model.to(dtype).eval()
    weights = {name: w for name, w in model.state_dict().items() if name != "lm_head.weight"}
    if workaround != "rename":
        weights = {name.replace("model", "model.language_model"): w for name, w in weights.items()}
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        save_file(weights, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        loaded = Gemma3nForCausalLM.from_pretrained(folder, torch_dtype=dtype)
    ids = torch.randint(5, 90, (2, 8), device=device)
    exact, found = (one.to(device).eval()(input_ids=ids).logits.float() for one in (model, loaded))
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.05, "the loaded model computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
