# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "from_pretrained without dtype: fp32 in 4.x and the checkpoint's dtype in 5.x"
# reports = ["https://github.com/huggingface/transformers/pull/34919"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model loaded without a dtype from a 16-bit checkpoint; fp32 checkpoints cannot meet it:
# both defaults give fp32."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# kind = "change"
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# auto = "Load with dtype=\"auto\" (torch_dtype before 4.56): the new behaviour everywhere."
# explicit = "Load with the dtype you want (torch_dtype before 4.56)."
#
# [tool.repromatrix.snippets]
# auto = 'model = LlamaModel.from_pretrained(name, torch_dtype="auto")'
# explicit = "model = LlamaModel.from_pretrained(name, torch_dtype=dtype)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.0"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the loaded model is not in the dtype of the checkpoint"
# where = "llama_default_load_dtype:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/42825"
# note = "Merged as #34919 and reverted, then brought back as #42805; #42825 makes it take effect."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/34919"
# says = "Without a dtype a model is loaded as it was saved, from 5.0 on."
# when = ["transformers>=5"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A checkpoint loaded without a requested dtype comes back in the dtype in which it was saved.

Before 5.0 every checkpoint was upcast to fp32. The change is intended, and the cause of many
reports of mixed dtypes after an upgrade. transformers#34919 introduced it and was reverted on the
same day; #42805 brought it back, and with #42825, a day later, the loaded weights follow it.
"""

import os
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
CONFIG = {**LAYERS, "intermediate_size": 32, "vocab_size": 99}


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    wish = {"": {}, "auto": {"torch_dtype": "auto"}, "explicit": {"torch_dtype": dtype}}[workaround]
    with tempfile.TemporaryDirectory() as folder:
        LlamaModel(LlamaConfig(**CONFIG)).to(dtype).save_pretrained(folder)
        model = LlamaModel.from_pretrained(folder, **wish).to(device)
    assert model.dtype == dtype, "the loaded model is not in the dtype of the checkpoint"


if __name__ == "__main__":
    main(*sys.argv[1:])
