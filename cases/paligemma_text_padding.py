# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "PaliGemma without token_type_ids and with SDPA is causal beside padding alone"
# reports = []
# found-by = "sweep"
# area = "attention-mask"
# models = ["paligemma"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation='eager', which is causal in both since 5.9."
# token-types = "Pass token_type_ids, which are 0 for a prompt."
#
# [tool.repromatrix.snippets]
# eager = 'model = AutoModelForImageTextToText.from_config(config, attn_implementation="eager")'
# token-types = '''
# types = torch.zeros_like(ids)
# outputs = model(input_ids=ids, attention_mask=mask, token_type_ids=types)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.9.0"]
# raises = "AssertionError"
# match = "padding changes the logits of a text"
# where = "paligemma_text_padding:main"
# ///
"""A text of PaliGemma must have the logits alone that it has beside padding.

Since 5.9 `PaliGemmaModel.forward` makes a causal mask where no token_type_ids are passed, which for
SDPA is none where nothing is padded, and `GemmaAttention` is told not to be causal in this model:
a text alone is seen in full, as until 5.8, and one that is padded causally.
"""

import os
import sys

import torch
from transformers import AutoModelForImageTextToText, PaliGemmaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 2}
TEXT = {**SIZES, "model_type": "gemma", "vocab_size": 99, "num_key_value_heads": 1, "head_dim": 16}
VISION = {**SIZES, "model_type": "siglip_vision_model", "image_size": 28, "patch_size": 14}
WORKAROUNDS = {"", "eager", "token-types"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    parts = {"vision_config": VISION, "text_config": TEXT}
    config = PaliGemmaConfig(**parts, image_token_index=98, projection_dim=32)
    attention = "eager" if workaround == "eager" else "sdpa"
    model = AutoModelForImageTextToText.from_config(config, attn_implementation=attention).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    mask = torch.tensor([[1] * 8 + [0] * 4], device=device)
    padded = torch.cat([ids, torch.zeros_like(ids[:, :4])], dim=-1)
    found = []
    with torch.no_grad():
        for some, seen in ((ids, mask[:, :8]), (padded, mask)):
            more = {"token_type_ids": torch.zeros_like(some)} if workaround == "token-types" else {}
            found.append(model(input_ids=some, attention_mask=seen, **more).logits[:, :8].float())
    alone, beside = found
    measured["logits_relative_error"] = float((beside - alone).norm() / alone.norm())
    assert measured["logits_relative_error"] < 0.05, "padding changes the logits of a text"


if __name__ == "__main__":
    main(*sys.argv[1:])
