# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "CLIP with projection is loaded in the dtype of its config, not in the requested one"
# reports = ["https://github.com/huggingface/transformers/issues/36686"]
# area = "loading"
# models = ["clip"]
# trigger = ["load", "forward"]
# symptom = ["wrong-dtype"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Call .to(dtype) on the loaded model."
# load-fp32 = "Load without a dtype, which gives fp32 before 5.0, and call .to(dtype)."
#
# [tool.repromatrix.snippets]
# cast-after-load = "model.to(dtype)  # after from_pretrained"
# load-fp32 = '''
# model = CLIPTextModelWithProjection.from_pretrained(name)
# model.to(dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<4.50"]
# raises = "AssertionError"
# match = "the model does not compute in the dtype that was asked for"
# where = "clip_projection_stale_dtype:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/36679"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36686"
# says = "Some parts of a pipeline of diffusers are loaded in another dtype than was asked for."
# when = ["transformers>=4.49,<4.50"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""CLIP's text model with projection, loaded in a dtype, must compute in it throughout.

The model builds its encoder with `_from_config` from its own config. In 4.49 that began to obey
the dtype in the config, which `from_pretrained` left at what the checkpoint says. The encoder then
matches the checkpoint, which lets the loader put the tensors of the checkpoint in place as they are.
"""

import os
import sys
import tempfile

import torch
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
OTHER = {"fp32": torch.float16, "bf16": torch.float16, "fp16": torch.bfloat16}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "projection_dim": 8, "vocab_size": 99}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2, "eos_token_id": 2}
WORKAROUNDS = {"", "cast-after-load", "load-fp32"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    asked = {} if workaround == "load-fp32" else {"torch_dtype": dtype}
    with tempfile.TemporaryDirectory() as folder:
        model = CLIPTextModelWithProjection(CLIPTextConfig(**SIZES, **LAYERS))
        model.to(OTHER[precision]).save_pretrained(folder)
        model = CLIPTextModelWithProjection.from_pretrained(folder, **asked).to(device).eval()
    if workaround:
        model.to(dtype)
    embeds = model(input_ids=torch.tensor([[5, 6, 2]], device=device)).text_embeds
    assert embeds.dtype == dtype, "the model does not compute in the dtype that was asked for"


if __name__ == "__main__":
    main(*sys.argv[1:])
