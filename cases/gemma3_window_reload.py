# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50"]
#
# [tool.repromatrix]
# title = "EmbeddingGemma's sliding window is halved each time the model is saved and loaded"
# reports = ["https://github.com/huggingface/transformers/pull/47940"]
# area = "config"
# models = ["gemma3"]
# same-code = ["gemma3n", "gemma4", "gemma4-unified", "diffusion-gemma"]
# trigger = ["save", "load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# own-config = "Load the weights with the config that the model was built with."
#
# [tool.repromatrix.snippets]
# own-config = "model = Gemma3TextModel.from_pretrained(name, config=config)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57,<5.16"]
# raises = "AssertionError"
# match = "the loaded model is not the one saved"
# where = "gemma3_window_reload:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47940"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47940"
# says = "Every save and reload halves the window."
# when = ["transformers>=4.57,<5.16"]
# outcome = "fails"
# ///
"""A Gemma 3 encoder must attend as far after a save and a load as before.

With bidirectional attention the window counts to both sides, so that the config halves the value
that it is given. It saves the halved value, which is halved again when it is read.
"""

import os
import sys
import tempfile

import torch
from transformers import Gemma3TextConfig, Gemma3TextModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
WINDOW = {"use_bidirectional_attention": True, "sliding_window": 32, "initializer_range": 0.5}
WORKAROUNDS = {"", "own-config"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Gemma3TextConfig(**SIZES, **HEADS, **WINDOW, layer_types=["sliding_attention"])
    model = Gemma3TextModel(config).to(device, dtype).eval()
    own = {"config": config} if workaround == "own-config" else {}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = Gemma3TextModel.from_pretrained(folder, torch_dtype=dtype, **own)
    ids = torch.randint(0, 99, (2, 64), device=device)
    exact = model(ids).last_hidden_state.float()
    found = loaded.to(device).eval()(ids).last_hidden_state.float()
    measured["output_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["output_relative_error"] < 0.05, "the loaded model is not the one saved"


if __name__ == "__main__":
    main(*sys.argv[1:])
