# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "CTRL in bf16 or fp16 fails in generate: position encodings stay in fp32"
# reports = []
# found-by = "measurement"
# area = "generation"
# models = ["ctrl"]
# trigger = ["load", "generate"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Call .to(dtype) on the loaded model; since 5.0 this casts the encodings."
# cast-table = "Cast model.transformer.pos_encoding to the model's dtype."
# autocast = "Load in fp32 and generate under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-after-load = "model.to(dtype)  # after from_pretrained"
# cast-table = "model.transformer.pos_encoding = model.transformer.pos_encoding.to(device, dtype)"
# autocast = '''
# model = CTRLLMHeadModel.from_pretrained(name, torch_dtype=torch.float32)
# with torch.autocast(device, dtype):
#     made = model.generate(ids)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5"]
# precisions = ["bf16", "fp16"]
# workarounds = ["", "cast-after-load"]
# raises = "RuntimeError"
# match = [
#     "mixed dtype (CPU): expect parameter to have scalar type of Float",
#     "expected scalar type Float but found",
# ]
# where = "transformers.models.ctrl.modeling_ctrl:EncoderLayer.forward"
# trigger = ["load", "cast", "generate"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5,<5.13"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mixed dtype (CPU): expect parameter to have scalar type of Float",
#     "expected scalar type Float but found",
# ]
# where = "transformers.models.ctrl.modeling_ctrl:EncoderLayer.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/46073"
# ///
"""CTRL loaded in bf16 or fp16 must generate.

In 4.x its sinusoidal position encodings are a plain fp32 tensor, which no cast reaches: added to
the embeddings they upcast the hidden states, and the first layer norm raises. Since 5.0 they are a
buffer: `.to(dtype)` casts it, `from_pretrained` does not, as no checkpoint has it. 5.13 casts them
where they are added.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import CTRLConfig, CTRLLMHeadModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "n_positions": 32, "n_embd": 32, "dff": 64, "n_layer": 1, "n_head": 4}
WORKAROUNDS = {"", "cast-after-load", "cast-table", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    with tempfile.TemporaryDirectory() as folder:
        CTRLLMHeadModel(CTRLConfig(**SIZES)).save_pretrained(folder)
        load_dtype = torch.float32 if mixed else dtype
        model = CTRLLMHeadModel.from_pretrained(folder, torch_dtype=load_dtype).to(device)
    if workaround == "cast-after-load":
        model.to(dtype)
    if workaround == "cast-table":
        model.transformer.pos_encoding = model.transformer.pos_encoding.to(device, dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        made = model.generate(ids, min_new_tokens=2, max_new_tokens=2, do_sample=False)
    assert made.shape == (1, 10), "not all tokens were generated"


if __name__ == "__main__":
    main(*sys.argv[1:])
