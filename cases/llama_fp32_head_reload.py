# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "A head that was trained in fp32 is rounded to 16 bit when the model is loaded again"
# reports = []
# found-by = "measurement"
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model of which a part was trained in fp32, saved, and loaded without a dtype; models \
# in one dtype cannot meet it."""
# trigger = ["load", "save"]
# symptom = ["wrong-dtype"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Load the whole model in fp32."
#
# [tool.repromatrix.snippets]
# load-fp32 = "model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float32)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the head is not what was saved"
# where = "llama_fp32_head_reload:main"
# ///
"""A part of a 16-bit model that is saved in fp32 must be loaded with the values that were saved.

The file keeps the dtype of each tensor, the config names one for all. Since 5.0 loading takes that
of the config unless another is asked for, and rounds the part that was trained in fp32.
"""

import os
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "load-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).to(device, dtype)
    model.lm_head.float()
    torch.nn.init.normal_(model.lm_head.weight)
    asked = {"torch_dtype": torch.float32} if workaround == "load-fp32" else {}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = AutoModelForCausalLM.from_pretrained(folder, **asked).to(device)
    off = loaded.lm_head.weight.float() - model.lm_head.weight
    measured["head_error"] = off.abs().max().item()
    assert measured["head_error"] == 0, "the head is not what was saved"


if __name__ == "__main__":
    main(*sys.argv[1:])
