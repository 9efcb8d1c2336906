# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Zamba of 5.13 and 5.14 refuses configs that earlier releases saved: layer type mamba"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["zamba"]
# trigger = ["load"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# rename-types = "Write linear_attention for mamba in layers_block_type of config.json."
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=5.13,<5.15"]
# raises = "StrictDataclassClassValidationError"
# match = "The `layer_types` entries must be in ("
# where = "huggingface_hub.dataclasses:strict.<locals>.wrap.<locals>.validate"
# fixed-by = "https://github.com/huggingface/transformers/pull/47630"
# ///
"""A checkpoint of Zamba that an earlier release saved must be loaded.

The configs of earlier releases name the kinds of layers `mamba` and `hybrid`. 5.13 calls the first
`linear_attention` and refuses a config with the old name; since 5.15 it is translated.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from transformers import ZambaConfig, ZambaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 6}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "use_mamba_kernels": False}
LAYERS = {"attn_layer_period": 3, "attn_layer_offset": 2, "n_mamba_heads": 2, "mamba_d_state": 4}
SAVED = ["mamba", "mamba", "hybrid"] * 2
WORKAROUNDS = {"", "rename-types"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = ZambaForCausalLM(ZambaConfig(**SIZES, **HEADS, **LAYERS))
    with tempfile.TemporaryDirectory() as folder:
        model.to(dtype).save_pretrained(folder)
        file = Path(folder) / "config.json"
        config = json.loads(file.read_text())
        if workaround != "rename-types":
            config["layers_block_type"] = SAVED
        file.write_text(json.dumps(config))
        loaded = ZambaForCausalLM.from_pretrained(folder, torch_dtype=dtype).to(device).eval()
    ids = torch.randint(5, 90, (1, 8), device=device)
    logits = loaded(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
