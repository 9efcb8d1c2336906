# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = 'dtype="auto" on a checkpoint that begins with float8 tensors: no storage object'
# reports = ["https://github.com/huggingface/transformers/issues/44589"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every checkpoint with float8 or float4 tensors whose config names no dtype; others cannot meet
# it: the dtype of the config is used first."""
# trigger = ["load"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# explicit = "Load with the dtype you want (torch_dtype before 4.56)."
# config-dtype = "Write the dtype into the config of the checkpoint."
#
# [tool.repromatrix.snippets]
# explicit = "model = LlamaForCausalLM.from_pretrained(name, torch_dtype=dtype)"
# config-dtype = 'config["torch_dtype"] = name  # in config.json, such as bfloat16'
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.4"]
# raises = "TypeError"
# match = "couldn't find storage object Float8_e4m3fnStorage"
# where = [
#     "transformers.modeling_utils:PreTrainedModel._set_default_torch_dtype",
#     "transformers.modeling_utils:PreTrainedModel._set_default_dtype",
#     "transformers.modeling_utils:local_torch_dtype",
# ]
# fixed-by = "https://github.com/huggingface/transformers/pull/44883"
# ///
"""A checkpoint with some weights in float8 must be loaded with `dtype="auto"` in its other dtype.

Where the config names no dtype, the first floating tensor decides. torch accepts no float8 dtype
as its default, in which the loader builds the model.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
FLOAT8 = "lm_head.weight"
WORKAROUNDS = {"", "explicit", "config-dtype"}


def save(folder: Path, dtype: torch.dtype, name: str | None) -> None:
    LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).to(dtype).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    weights[FLOAT8] = weights[FLOAT8].to(torch.float8_e4m3fn)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("torch_dtype", None), config.pop("dtype", None)
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": name}))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    name = str(dtype).removeprefix("torch.") if workaround == "config-dtype" else None
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), dtype, name)
        for way in ("explicit", workaround):
            asked = dtype if way == "explicit" else "auto"
            model = LlamaForCausalLM.from_pretrained(folder, torch_dtype=asked).to(device)
            found = model.model(torch.arange(8, device=device)[None]).last_hidden_state.dtype
            assert found == dtype, "the model is not in the dtype of the other tensors"


if __name__ == "__main__":
    main(*sys.argv[1:])
