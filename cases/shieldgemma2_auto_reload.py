# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50"]
#
# [tool.repromatrix]
# title = "ShieldGemma 2 of AutoModelForImageTextToText loses its language model when reloaded"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["shieldgemma2"]
# trigger = ["save", "load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# state-dict = "Load the state dict into a model made from the config, without save_pretrained."
#
# [tool.repromatrix.snippets]
# state-dict = '''
# loaded = AutoModelForImageTextToText.from_config(config).to(dtype)
# loaded.load_state_dict(model.state_dict())'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.9.0,<5.10.1"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "shieldgemma2_auto_reload:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46067"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.16.0"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "shieldgemma2_auto_reload:main"
# ///
"""A ShieldGemma 2 that AutoModelForImageTextToText made must be the same once saved and loaded.

The auto class makes a Gemma3ForConditionalGeneration, and `from_pretrained` applies to it the
prefix conversion of `shieldgemma2`, meant for ShieldGemma2ForImageClassification. The names that
`save_pretrained` wrote are then not found, and the language model is initialised anew.
"""

import os
import sys
import tempfile

import torch
from transformers import AutoModelForImageTextToText, ShieldGemma2Config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
TEXT = {"model_type": "gemma3_text", **LAYERS, **HEADS, "vocab_size": 99}
VISION = {"model_type": "siglip_vision_model", **LAYERS, "image_size": 28, "patch_size": 14}
TOKENS = {"boi_token_index": 96, "eoi_token_index": 97, "image_token_index": 98}
WORKAROUNDS = {"", "state-dict"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    vision = {**VISION, "num_attention_heads": 2}
    config = ShieldGemma2Config(
        text_config=TEXT, vision_config=vision, mm_tokens_per_image=4, **TOKENS
    )
    model = AutoModelForImageTextToText.from_config(config).to(dtype).eval()
    if workaround == "state-dict":
        loaded = AutoModelForImageTextToText.from_config(config).to(dtype)
        loaded.load_state_dict(model.state_dict())
    else:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            loaded = AutoModelForImageTextToText.from_pretrained(folder, torch_dtype=dtype)
    ids = torch.randint(5, 90, (2, 8), device=device)
    exact, found = (one.to(device).eval()(input_ids=ids).logits.float() for one in (model, loaded))
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.1, "the loaded model computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
